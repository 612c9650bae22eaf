"""Debug mode: hypotheses, probes and runs as its tools reach them, and the rules for when a fix may be tried."""
