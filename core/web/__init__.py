"""Pages of the web: addresses, a guarded way to them, and their text."""
