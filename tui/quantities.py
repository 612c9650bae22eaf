"""Formats of quantities: costs, durations and ages. `core/text/counting.py` formats counts and sizes."""

from __future__ import annotations

from core.text.counting import count


def format_cost(cost: float, *, is_estimated: bool = False) -> str:
    """Format a cost in US dollars; a small one is never rounded to zero."""
    return "< $0.0001" if 0 < cost < 0.00005 else f"{'~' if is_estimated else ''}${cost:.4f}"


def format_count(tokens: int) -> str:
    """Format a count in at most five characters: 950, 12.3k, 1.2M."""
    if tokens < 1_000:
        return str(tokens)
    return f"{tokens / 1_000:.1f}k" if tokens < 1_000_000 else f"{tokens / 1_000_000:.1f}M"


def format_duration(ms: int) -> str:
    """Format milliseconds as "950 ms", "1.5 s" or "2 min 3 s"."""
    if ms < 1000:
        return f"{ms} ms"
    return f"{ms / 1000:.1f} s" if ms < 60_000 else f"{ms // 60_000} min {ms % 60_000 // 1000} s"


def format_elapsed(ms: int) -> str:
    """Format a duration until now in whole seconds: "3 s", "2 min 3 s"."""
    return f"{ms // 1000} s" if ms < 60_000 else format_duration(ms)


def format_age(ms: int) -> str:
    """Format an age: "2 days ago", "just now"."""
    minutes = max(ms, 0) // 60_000
    for unit, size in (("day", 24 * 60), ("hour", 60), ("minute", 1)):
        if minutes >= size:
            return f"{count(unit, minutes // size)} ago"
    return "just now"
