"""Commits of accepted hunks, without the user's own edits."""
