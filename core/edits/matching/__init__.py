"""The matching ladder: where a text stands in a file, exactly or by the next best rung, and never by guessing."""
