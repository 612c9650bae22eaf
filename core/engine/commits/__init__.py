"""Commits of accepted hunks: their content and messages, hooks in the box, the commit by git, pull requests."""
