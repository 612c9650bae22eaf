"""Drafts with markers: the placement of their lines and pieces in a file, and the rules that a result has to
satisfy."""
