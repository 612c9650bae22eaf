"""The controllers of the main screen, one per field."""
