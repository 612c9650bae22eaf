"""The prices of models, in US dollars, and the sizes of a prompt at which they rise.

Prices, and windows that `models.toml` lacks, come from `prices.json`, which `docs/dev/tools/price_table.py` makes from
the package genai-prices. Importing that takes 190 ms of processor time and 69 MB, reading the table 4 ms and 1 MB.
A contract test compares the costs for every model. A model without a price there costs what `models.toml` says: its
maker's `price`, or that of `price_like`, which is an estimate. What a service tier or a long cache entry costs more or
less is in `models.toml`, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

from msgspec import Struct

from core.patterns import compile_lazily
from core.protocol.messages import Usage
from core.providers.catalog.capabilities import (
    LOCAL,
    ListPrice,
    PriceStep,
    find_canonical_capabilities,
    is_chat_model,
)
from core.records import decode_json

PRICES_FILE: Final = Path(__file__).with_name("prices.json")
_PER: Final = 1_000_000  # tokens
_COMPACT_DATE: Final = compile_lazily(r"-(20\d\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?=-|:|$)")
_TESTS: Final[dict[str, Callable[[str, str], bool]]] = {
    "=": str.__eq__,
    "^": str.startswith,
    "$": str.endswith,
    "*": str.__contains__,
    "/": lambda name, pattern: re.search(pattern, name) is not None,
}
_THINKING: Final = "-thinking"  # a choice of how to ask, which some programs count to the name
_WORD: Final = compile_lazily(r"[a-z]+|[0-9]+")
# Owners in the table, and our ids of their APIs.
_OWN_APIS: Final = {
    "anthropic": "anthropic",
    "openai": "openai",
    "google": "gemini",
    "mistral": "mistral",
    "deepseek": "deepseek",
    "x-ai": "xai",
}
_LISTED: Final = frozenset({"openai", "anthropic"})


class NamePattern(Struct, frozen=True, array_like=True):
    """A condition on a model's name in lower case. `kind`: a key of `_TESTS`, or "|" and "&" for any or all `parts`."""

    kind: str
    text: str = ""
    parts: tuple[NamePattern, ...] = ()

    def matches(self, name: str) -> bool:
        if self.kind in _TESTS:
            return _TESTS[self.kind](name, self.text)
        return (any if self.kind == "|" else all)(part.matches(name) for part in self.parts)

    def list_texts(self) -> tuple[str, ...]:
        """Return the names in the pattern; the first is the API's own."""
        return (self.text, *(text for part in self.parts for text in part.list_texts()))


class Rate(Struct, frozen=True, array_like=True):
    """US dollars per million tokens. `tiers`: (threshold, price): prompts of more tokens pay that price for all."""

    base: Decimal
    tiers: tuple[tuple[int, Decimal], ...] = ()

    def choose(self, prompt_tokens: int) -> Decimal:
        """Return the price for a call with a prompt of this size."""
        return next((price for threshold, price in reversed(self.tiers) if prompt_tokens > threshold), self.base)


class PriceList(Struct, frozen=True):
    """Prices of one model, None = not charged separately. `request` in US dollars per call.

    `since`: the first day (ISO, UTC); `hours`: the times of day (ISO, UTC) at which they begin and end.
    """

    since: str = ""
    hours: tuple[str, str] | None = None
    input: Rate | None = None
    output: Rate | None = None
    cache_read: Rate | None = None
    cache_write: Rate | None = None
    request: Decimal = Decimal(0)

    def is_active(self, moment: datetime) -> bool:
        """True if the prices are valid at a moment in UTC."""
        if self.since and moment.date().isoformat() < self.since:
            return False
        if self.hours is None:
            return True
        (start, end), now = self.hours, moment.time().isoformat("microseconds")
        return start <= now < end if start <= end else now >= start or now < end

    def find_step(self) -> PriceStep:
        """Return the size of a prompt above which all of its tokens cost more."""
        rate = self.input
        if rate is None or not rate.base:
            return PriceStep()
        steps = (PriceStep(tokens=tokens, factor=float(price / rate.base)) for tokens, price in rate.tiers)
        return next((step for step in steps if step.factor > 1), PriceStep())

    def compute_cost(self, usage: Usage) -> float | None:
        """Return the cost of a call in US dollars; None if its counts contradict each other."""
        rest = usage.prompt_tokens
        total = self.request
        for rate, count in ((self.cache_read, usage.cached_tokens), (self.cache_write, usage.cache_write_tokens)):
            if rate is not None:
                rest -= count
                total += rate.choose(usage.prompt_tokens) * count / _PER
        if self.input is not None:
            if rest < 0:
                return None
            total += self.input.choose(usage.prompt_tokens) * rest / _PER
        if self.output is not None:
            total += self.output.choose(usage.prompt_tokens) * usage.completion_tokens / _PER
        return float(total)


class PricedModel(Struct, frozen=True):
    """A model in the table. `window` in tokens, 0 = unknown; of its price lists the last active one is valid."""

    names: NamePattern
    prices: tuple[PriceList, ...]
    window: int = 0

    def choose_prices(self, moment: datetime) -> PriceList:
        """Return the prices at a moment in UTC."""
        return next((prices for prices in reversed(self.prices) if prices.is_active(moment)), self.prices[0])


class _Provider(Struct, frozen=True):
    """A provider. `names`: the models that are its own wherever they run; `fallback`: ids of further providers."""

    id: str
    models: tuple[PricedModel, ...]
    names: NamePattern | None = None
    fallback: tuple[str, ...] = ()


@lru_cache(maxsize=256)
def find_model(name: str, provider: str = "") -> PricedModel | None:
    """Return the entry of a model at a provider ("": at its maker); None = it is not in the table."""
    name, table = name.lower(), load_table()
    own = table.get(provider) or next(
        (owner for owner in table.values() if owner.names is not None and owner.names.matches(name)), None
    )
    if own is None:
        return None
    owners = (own, *(table[fallback] for fallback in own.fallback))
    candidates = dict.fromkeys((name, _COMPACT_DATE.sub(r"-\1-\2-\3", name)))
    models = ((model, candidate) for candidate in candidates for owner in owners for model in owner.models)
    return next((model for model, candidate in models if model.names.matches(candidate)), None)


def find_makers_id(name: str) -> str:
    """Return `provider/name` at the maker's own API for a model's bare name in any of its spellings (`gpt-5.4`,
    `claude-4.6-opus`), "" = the table has no such model."""
    name = name.strip().lower()
    model = find_model(name)
    owner = next((owner for owner in load_table().values() if model in owner.models), None)
    if model is None or owner is None or owner.id not in _OWN_APIS or not is_chat_model(name):
        return ""
    words = sorted(_WORD.findall(name.removesuffix(_THINKING)))
    spellings = (text for text in model.names.list_texts() if sorted(_WORD.findall(text)) == words)
    return f"{_OWN_APIS[owner.id]}/{next(spellings, name).rstrip('@')}"


def compute_list_price(name: str, provider: str, usage: Usage, moment: datetime | None = None) -> float | None:
    """Return the cost of a call in US dollars at a moment in UTC (None: now); None if the price is not known."""
    model = find_model(name, provider)
    return None if model is None else model.choose_prices(moment or datetime.now(UTC)).compute_cost(usage)


@cache
def load_table() -> dict[str, _Provider]:
    """Load the table at its first use (some milliseconds): the providers by id."""
    return {provider.id: provider for provider in decode_json(PRICES_FILE.read_bytes(), list[_Provider])}


def compute_cost(model_id: str, usage: Usage) -> float | None:
    """Return the US dollars for one call to `provider/name`; 0.0 for a local model, None if the price is unknown. The
    price of a similar model counts where there is none, see `is_estimated`."""
    provider, _, name = model_id.partition("/")
    if provider in LOCAL:
        return 0.0
    model, capabilities = _find_priced(name, provider), find_canonical_capabilities(name)
    if model is None:
        return None
    prices = model.choose_prices(datetime.now(UTC))
    cost = prices.compute_cost(usage)
    if cost is not None and usage.long_cache_tokens and prices.cache_write is not None:
        written = float(prices.cache_write.choose(usage.prompt_tokens)) * usage.long_cache_tokens / _PER
        cost += written * (capabilities.cache.long_factor - 1)
    return None if cost is None else cost * (capabilities.tiers.get_factor(usage.tier) or 1)


def is_estimated(model_id: str) -> bool:
    """Return True if the costs of `provider/name` are those of a similar model."""
    provider, _, name = model_id.partition("/")
    is_listed = provider in LOCAL or find_model(name, _get_listed(provider)) is not None
    return not is_listed and find_canonical_capabilities(name).price is None


def find_context_window(model_id: str) -> int:
    """Return the context window of `provider/name` in tokens, 0 = unknown."""
    provider, _, name = model_id.partition("/")
    if provider in LOCAL:
        return 0
    if (context_window := find_canonical_capabilities(name).context_window) or not _get_listed(provider):
        return context_window
    model = find_model(name, provider)
    return 0 if model is None else model.window


def find_price_step(model_id: str) -> PriceStep:
    """Return the first price step of `provider/name`."""
    provider, _, name = model_id.partition("/")
    model = None if provider in LOCAL else _find_priced(name, provider)
    return model.choose_prices(datetime.now(UTC)).find_step() if model is not None else PriceStep()


def _find_priced(name: str, provider: str) -> PricedModel | None:
    """Return the entry of a model, else that of the model whose price stands for it."""
    listed, capabilities = _get_listed(provider), find_canonical_capabilities(name)
    if (model := find_model(name, listed)) is not None:
        return model
    if capabilities.price is not None:
        return _build_priced(capabilities.price)
    return find_model(capabilities.price_like, listed) if capabilities.price_like else None


@lru_cache(maxsize=16)
def _build_priced(price: ListPrice) -> PricedModel:
    def rate(dollars: float, factor: float = price.step_input) -> Rate:
        tiers = ((price.step, Decimal(str(dollars * factor))),) if price.step else ()
        return Rate(Decimal(str(dollars)), tiers)

    prices = PriceList(
        input=rate(price.input),
        output=rate(price.output, price.step_output),
        cache_read=rate(price.cached),
        cache_write=rate(price.cache_write) if price.cache_write else None,
    )
    return PricedModel(names=NamePattern("="), prices=(prices,))


def _get_listed(provider: str) -> str:
    """Return the provider if the price list names it so; else "", and the maker of a model is looked up by its name."""
    return provider if provider in _LISTED else ""
