"""Syntax trees of source files."""
