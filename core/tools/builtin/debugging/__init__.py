"""Debugging."""
