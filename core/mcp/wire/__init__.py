"""The wire of MCP servers: their messages as the SDK reads them."""
