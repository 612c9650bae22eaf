"""Searching the project: the dialogs that list places in it, and how far its index is."""
