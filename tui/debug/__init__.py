"""The debug board: hypotheses, probes and their log."""
