"""Differences of texts and notebooks: hunks, lines, words, and three-way merges."""
