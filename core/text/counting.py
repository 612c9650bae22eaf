"""Counts of things in words: "1 line", "2,000 lines"."""

from __future__ import annotations


def count(noun: str, number: int) -> str:
    """Format a number of things."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
