"""The cost of calls and the windows of models, from the price list of genai-prices.

Importing the list costs a fifth of a second: `load` does it, in the thread that imports the SDK, so that `cost` finds
it ready. `context_window` never imports it: the list is only asked for models that the data file does not know.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from core.protocol.messages import Usage
from core.providers.catalog.capabilities import LOCAL, find_canonical_name

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation

FREE: Final = LOCAL
_LISTED: Final = frozenset({"openai", "anthropic"})


def load_prices() -> None:
    """Import the price list. Slow; safe in any thread."""
    _find_price("openai/gpt-4o", 1, 1)


def compute_cost(model_id: str, usage: Usage) -> float | None:
    """US dollars for one call to `provider/name`; 0.0 for a model on this machine, None when the price is not known."""
    if model_id.partition("/")[0] in FREE:
        return 0.0
    cached_tokens, cache_write_tokens = usage.cached_tokens, usage.cache_write_tokens
    price = _find_price(model_id, usage.prompt_tokens, usage.completion_tokens, cached_tokens, cache_write_tokens)
    return None if price is None else float(price.total_price)


@lru_cache(maxsize=64)
def _find_price(
    model_id: str, prompt: int, answer: int, cached_tokens: int = 0, cache_write_tokens: int = 0
) -> PriceCalculation | None:
    from genai_prices import Usage as Counts
    from genai_prices import calc_price

    provider, _, name = model_id.partition("/")
    counts = Counts(
        input_tokens=prompt,
        output_tokens=answer,
        cache_read_tokens=cached_tokens,
        cache_write_tokens=cache_write_tokens or None,
    )
    try:
        return calc_price(counts, name, provider_id=provider if provider in _LISTED else None)
    except (LookupError, ValueError):
        return None


def find_context_window(model_id: str) -> int:
    """Tokens that `provider/name` can be sent, 0 = not known. Never slow."""
    provider, _, name = model_id.partition("/")
    if provider in FREE:
        return 0
    if (context_window := find_canonical_name(name).context_window) or provider not in _LISTED:
        return context_window
    price = _find_price(model_id, 1, 1) if "genai_prices.data" in sys.modules else None
    return (price.model.context_window or 0) if price else 0
