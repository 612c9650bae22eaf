"""Drafts that are shaped like diffs: pieces of the new file, cut at any line, with markers between them."""
