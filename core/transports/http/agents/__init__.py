"""Background agents by HTTP."""
