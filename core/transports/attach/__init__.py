"""Several clients at one engine: who has which session open, and the sockets by which they come."""
