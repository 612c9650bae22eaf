"""The kind of change that a hunk is, without running anything."""
