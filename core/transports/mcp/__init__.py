"""Our own MCP server: what another agent may look up and propose here, by the same gate and into the same shadow."""
