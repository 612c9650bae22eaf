"""Counts and sizes in words: "1 line", "2,000 lines", "1.2 kB"."""

from __future__ import annotations


def count(noun: str, number: int) -> str:
    """Format a number of things."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_size(size: int) -> str:
    """Format bytes in decimal units, as "980 B", "1.2 kB" or "48 MB": two digits or three, never 1000 of a unit."""
    amount, units = float(size), ["B", "kB", "MB", "GB", "TB"]
    while amount >= 999.5 and len(units) > 1:
        amount, units = amount / 1000, units[1:]
    return f"{amount:.{int(units[0] != 'B' and amount < 9.95)}f} {units[0]}"
