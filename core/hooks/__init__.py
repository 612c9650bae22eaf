"""Hooks: programs of the user and of the project that run at fixed events of a session."""
