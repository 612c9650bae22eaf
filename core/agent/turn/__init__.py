"""One turn: its prompt, its model calls, its loop, and when it may end."""
