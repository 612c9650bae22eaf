"""The terminal below the screen: its driver, the frames and sequences written to it, and its input."""
