"""`agent-tui skills` and `agent-tui commands`."""
