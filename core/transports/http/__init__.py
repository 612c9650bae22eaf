"""`agent-tui serve`: the chat API, the sessions and the web page by HTTP."""
