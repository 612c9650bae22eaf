"""The terminal under the screen: its driver, what is written to it, and the lines left on it."""
