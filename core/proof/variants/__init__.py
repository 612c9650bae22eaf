"""Variants of the pending text over which the check runs: without a hunk, with a fault, with a changed line."""
