"""Long-lived programs in the box that are spoken to: MCP servers, agents of others."""
