"""Code reviews: what is looked at, the turn that looks, and its findings checked against the lines."""
