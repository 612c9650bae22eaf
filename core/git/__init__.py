"""Git for this program itself: started in one place, and never with the configuration of a repository."""
