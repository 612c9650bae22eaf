"""Git for this program itself: run in one place, and never with the configuration of a repository."""
