"""Background agents as a session sees them: what there is, and what the user does with them."""
