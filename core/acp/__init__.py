"""The Agent Client Protocol (version 1): JSON-RPC over lines, and the shapes that both of its sides speak."""
