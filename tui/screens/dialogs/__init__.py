"""The dialogs over the main screen; each gives one answer."""
