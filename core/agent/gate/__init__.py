"""The gate: the one path of every tool call, and the capabilities that calls get."""
