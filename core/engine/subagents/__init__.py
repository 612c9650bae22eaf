"""Subagents."""
