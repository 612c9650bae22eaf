"""Renderings of what waits for a review, for other programs to read."""
