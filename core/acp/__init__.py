"""The Agent Client Protocol (version 1): JSON-RPC over lines, and the records of both sides."""
