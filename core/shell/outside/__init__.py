"""Commands that the user let out of the box: their run, and what they did on the disk."""
