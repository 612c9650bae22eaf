"""Turns of a session: their prompts with mentions and commands, and the run of a turn from start to end."""
