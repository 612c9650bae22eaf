"""Proof: what the tests really say about each hunk of the pending changes."""
