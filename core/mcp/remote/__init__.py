"""MCP servers that are reached over HTTP: what they are reached through, and who is logged in to them."""
