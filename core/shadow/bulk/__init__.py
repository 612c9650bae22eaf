"""Bulks: generated and ignored paths that are accepted, rejected and undone together."""
