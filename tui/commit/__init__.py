"""Dialogs in which what was accepted becomes commits, and a branch a pull request."""
