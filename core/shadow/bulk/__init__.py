"""Bulks: generated and ignored paths, decided on together, and undone together."""
