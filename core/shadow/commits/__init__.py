"""Accepted hunks that no commit has yet, as content for one: the user's own edits stay out of it."""
