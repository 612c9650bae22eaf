"""Hooks of open sessions: whose they are, and the events that no turn raises."""
