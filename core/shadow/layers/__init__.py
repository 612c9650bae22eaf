"""Layers: what each command wrote, their stack over the workspace, and the tree that they make together."""
