"""The dialogs over the main screen; each returns one answer."""
