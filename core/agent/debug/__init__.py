"""Debug."""
