"""Tools of Debug mode."""
