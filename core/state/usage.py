"""Arithmetic on the usage of model calls."""

from __future__ import annotations

from typing import Final

from core.protocol.messages import Usage

_COUNTS: Final = tuple(name for name in Usage.__struct_fields__ if name != "cost")


def subtract_usage(total: Usage, part: Usage) -> Usage:
    """Return `total` less `part`."""
    cost = None if total.cost is None else total.cost - (part.cost or 0.0)
    return Usage(**{name: getattr(total, name) - getattr(part, name) for name in _COUNTS}, cost=cost)


def add_usage(first: Usage, second: Usage) -> Usage:
    """Return tokens and cost of both; the cost is None if neither is known."""
    costs = [usage.cost for usage in (first, second) if usage.cost is not None]
    counts = {name: getattr(first, name) + getattr(second, name) for name in _COUNTS}
    return Usage(**counts, cost=sum(costs) if costs else None)
