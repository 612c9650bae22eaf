"""The machine as a command sees it."""
