"""Transports: clients and servers that carry submit, query and events over streams, HTTP, ACP and MCP."""
