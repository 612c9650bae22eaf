"""Debugging by evidence: hypotheses, probes and what they log. Text in, text out; nothing here touches a file."""
