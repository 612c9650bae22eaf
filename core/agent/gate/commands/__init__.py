"""Commands at the gate: what they ask for beside running, the way out of the box, and those that run side by side."""
