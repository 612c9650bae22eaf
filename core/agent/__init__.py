"""The agent: one turn from a prompt to an answer, every tool call through one gate."""
