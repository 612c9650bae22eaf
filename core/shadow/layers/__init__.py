"""Layers: the writes of every command, their stack over the workspace, and the merged tree."""
