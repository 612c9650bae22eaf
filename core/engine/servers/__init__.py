"""MCP servers beside their tools: what the user names of them in a prompt."""
