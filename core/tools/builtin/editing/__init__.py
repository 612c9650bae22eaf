"""Tools that edit files in the shadow."""
