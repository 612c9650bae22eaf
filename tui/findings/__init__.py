"""The pane of findings: what a code review has to say, and what becomes of it."""
