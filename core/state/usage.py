"""Arithmetic on the usage of model calls."""

from __future__ import annotations

from core.protocol.messages import Usage


def subtract_usage(whole: Usage, part: Usage) -> Usage:
    """Return `whole` less `part`."""
    return Usage(
        prompt_tokens=whole.prompt_tokens - part.prompt_tokens,
        completion_tokens=whole.completion_tokens - part.completion_tokens,
        cached_tokens=whole.cached_tokens - part.cached_tokens,
        cache_write_tokens=whole.cache_write_tokens - part.cache_write_tokens,
        reasoning_tokens=whole.reasoning_tokens - part.reasoning_tokens,
        cost=None if whole.cost is None else whole.cost - (part.cost or 0.0),
    )


def add_usage(first: Usage, second: Usage) -> Usage:
    """Return tokens and cost of both; the cost is None if neither is known."""
    costs = [usage.cost for usage in (first, second) if usage.cost is not None]
    return Usage(
        prompt_tokens=first.prompt_tokens + second.prompt_tokens,
        completion_tokens=first.completion_tokens + second.completion_tokens,
        cached_tokens=first.cached_tokens + second.cached_tokens,
        cache_write_tokens=first.cache_write_tokens + second.cache_write_tokens,
        reasoning_tokens=first.reasoning_tokens + second.reasoning_tokens,
        cost=sum(costs) if costs else None,
    )
