"""Sessions that are kept and not open: what is changed of them from a list, and what goes with time."""
