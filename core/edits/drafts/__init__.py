"""Drafts with markers: how their lines and pieces are laid on a file, and what may not become of it."""
