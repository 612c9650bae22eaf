"""Turns of a session: their prompts, what these name, and how a turn runs from its start to its end."""
