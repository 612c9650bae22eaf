"""The screens of agent-tui: a client of the engine that knows only its protocol."""
