"""The configuration as its user sees it: what holds and why, and all that is wrong with it."""
