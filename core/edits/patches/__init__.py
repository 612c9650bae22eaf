"""Patches: their text, what they say, and where each of their hunks belongs in a file."""
