"""Controllers of what goes to the terminal beside the screen: what calls the user, and what is copied."""
