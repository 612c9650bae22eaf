"""`agent-tui acp`: an engine behind the Agent Client Protocol, for editors."""
