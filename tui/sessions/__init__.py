"""Sessions on screen: the list to choose from, with a search over all transcripts, and the one that a start shows."""
