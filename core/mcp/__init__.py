"""MCP servers: their configuration, the user's consents, and the servers that run in the sandbox over the shadow."""
