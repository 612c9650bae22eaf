"""Runs of a check over variants of the pending text, and what each test did in them."""
