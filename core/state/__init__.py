"""The state of a session, folded from its events: the engine and the screen use the same."""
