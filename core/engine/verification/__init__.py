"""Verification of pending changes before they are accepted: which files, by which checks, and what becomes of them."""
