"""Drafts with markers: the placement of their pieces in a file, and the rules that a result has to satisfy."""
