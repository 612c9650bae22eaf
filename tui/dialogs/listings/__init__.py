"""Dialogs that explain a list, row by row: the context, the rules, the memory of the project."""
