"""Differences of texts: lines, hunks, words, and merges of three."""
