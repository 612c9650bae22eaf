"""Tools that read and search files as the agent sees them."""
