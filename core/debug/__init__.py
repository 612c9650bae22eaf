"""Debugging by evidence: hypotheses, probes and their logs. Pure functions over texts; nothing here touches a file."""
