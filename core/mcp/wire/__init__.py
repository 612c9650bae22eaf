"""The wire of MCP servers: connections by the SDK, what their results become, and what they ask of the user."""
