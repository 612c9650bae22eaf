"""Completion of command lines in shells, and the man page: both are made of the parsers."""
