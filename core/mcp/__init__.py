"""MCP servers: what is configured, what the user said yes to, and the servers that run in the box over the shadow."""
