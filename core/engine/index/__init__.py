"""The engine's side of the index: who builds it, and what is asked of it."""
