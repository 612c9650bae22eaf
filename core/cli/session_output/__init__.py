"""Output of `agent-tui sessions`: a table, one session in whole, hits of a search."""
