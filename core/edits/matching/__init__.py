"""The matching ladder: the position of a text in a file, exactly or on the next best rung, and never by guessing."""
