"""Search of the project: the dialogs with their hits, and the status of the index."""
