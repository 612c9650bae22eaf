"""Drafts that leave code out: comments say what stays as it is, anchors and syntax say where."""
