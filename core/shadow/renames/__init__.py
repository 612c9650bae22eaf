"""Rename detection among the pending changes, by content, as git does it."""
