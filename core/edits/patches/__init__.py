"""Patches: their text, their contents, and the place of each of their hunks in a file."""
