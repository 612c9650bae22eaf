"""`agent-tui skills`, `agent-tui commands` and `agent-tui mcp`."""
