"""What kind of change a hunk is, without running anything."""
