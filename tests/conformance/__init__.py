"""The MCP project's own suite for clients, played against ours by hand: `python -m tests.conformance DIR`."""
