"""Commits of accepted hunks: their content and messages, the hooks in the box, git's own commit, pull requests."""
