"""The web as the agent of a session reaches it."""
