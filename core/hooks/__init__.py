"""Hooks: programs of the user and of the project that are asked or told at fixed moments of a session."""
