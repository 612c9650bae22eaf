"""The review of pending changes."""
