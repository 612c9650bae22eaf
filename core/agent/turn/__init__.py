"""One turn: its context, its loop, its limits, and when it may end."""
