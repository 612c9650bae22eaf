"""The roster: the subagents of a session, what each is at, and what came of it."""
