"""Text: lines, differences, splices, fences and names. Pure functions that know nothing of the program."""
