"""The abilities, context windows and prices of models.

Abilities come from the models endpoint, else from `models.toml`. Prices, and windows that this file does not have, come
from `prices.json`, which `docs/dev/tools/price_table.py` makes from the package genai-prices. Importing that takes
190 ms of processor time and 69 MB, reading the table 4 ms and 1 MB. A contract test compares the costs for every model.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import asdict, replace

from core.edit_formats import EditFormat
from core.patterns import compile_lazily
from core.protocol.messages import Effort, Usage, WireProtocol
from core.providers.catalog.reported import ReportedCapabilities, Thinking, load_reported
from core.records import convert, decode_json, parse_toml

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
FILE: Final = Path(__file__).with_name("models.toml")
# Local servers: they choose the window themselves and are free of charge.
LOCAL: Final = frozenset({"scripted", "ollama", "lmstudio", "llamacpp", "vllm"})
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


def compute_list_price(name: str, provider: str, usage: Usage, moment: datetime | None = None) -> float | None:
    """Return the cost of a call in US dollars at a moment in UTC (None: now); None if the price is not known."""
    model = find_model(name, provider)
    return None if model is None else model.choose_prices(moment or datetime.now(UTC)).compute_cost(usage)


@cache
def load_table() -> dict[str, _Provider]:
    """Load the table at its first use (some milliseconds): the providers by id."""
    return {provider.id: provider for provider in decode_json(PRICES_FILE.read_bytes(), list[_Provider])}


class Capabilities(Struct, frozen=True, kw_only=True):
    """The capabilities of one model. `efforts` from the least to the most, () = no choice; "none" = thinking can be
    switched off. `default_effort`: the effort if none is sent, "" = unknown. `thinking`: the types of thinking that can
    be requested, the best first.

    `sampling`: `temperature` may be sent. `freeform_tools`: tools whose input is free text. `context_window` and
    `max_output` in tokens, 0 = unknown. `wire`: the protocol that it speaks, None = its provider's. `edits`: the edit
    format that it is best at, "" = no particular one.
    """

    efforts: tuple[Effort, ...] = ()
    default_effort: Effort | Literal[""] = ""
    thinking: tuple[Thinking, ...] = ()
    sampling: bool = True
    images: bool = True
    pdf: bool = False
    tools: bool = True
    freeform_tools: bool = False
    context_window: int = 0
    max_output: int = 0
    wire: WireProtocol | None = None
    edits: EditFormat | Literal[""] = ""


class ModelFamily(Struct, frozen=True, kw_only=True):
    """Capabilities by name. `patterns`: globs that the name has to match, one of every group."""

    patterns: tuple[tuple[str, ...], ...]
    capabilities: Capabilities

    def matches(self, name: str) -> bool:
        return all(any(fnmatchcase(name, pattern) for pattern in group) for group in self.patterns)


class ModelCatalogue(Struct, frozen=True, kw_only=True):
    """The data file. `not_chat`: patterns of models that can't chat."""

    not_chat: tuple[str, ...]
    models: tuple[ModelFamily, ...]


def find_capabilities(provider: str, model: str, *, wire: WireProtocol, origin: str = "") -> Capabilities:
    """Return the capabilities of `model` at a provider whose default protocol is `wire`, as reported by the models
    endpoint at `origin` or listed. Fast; `wire` of the result is never None."""
    capabilities = _adapt_to_wire(find_canonical_capabilities(model), wire)
    capabilities = replace(capabilities, context_window=0, max_output=0) if provider in LOCAL else capabilities
    report = load_reported(origin, model)
    return capabilities if report is None else merge_reported(capabilities, report)


def merge_reported(listed_capabilities: Capabilities, report: ReportedCapabilities) -> Capabilities:
    """Replace listed capabilities by reported ones."""
    news = {name: value for name, value in asdict(report).items() if value is False or value not in (None, 0)}
    best = report.thinking[:1] if report.thinking is not None else listed_capabilities.thinking[:1]
    if listed_capabilities.efforts and report.efforts and (report.thinking is None or best == ("enabled",)):
        del news["efforts"]  # The endpoint reports only that there are some, or the budgets are ours.
    capabilities: Capabilities = replace(listed_capabilities, **news)
    return (
        capabilities
        if capabilities.default_effort in capabilities.efforts
        else replace(capabilities, default_effort="")
    )


@lru_cache(maxsize=256)
def find_canonical_capabilities(model: str) -> Capabilities:
    """Return the data file's entry for a model of this name, wherever it runs; `wire` is its maker's."""
    name = strip_prefix(model)
    return next((family.capabilities for family in load_catalogue().models if family.matches(name)), Capabilities())


def _adapt_to_wire(capabilities: Capabilities, wire: WireProtocol) -> Capabilities:
    """Return the capabilities at a host that speaks `wire`, without features that only the maker's own API has."""
    if capabilities.wire == wire == "messages" or (wire == "responses" and capabilities.wire in {"responses", "chat"}):
        return capabilities
    if wire == "messages":
        plain = replace(capabilities, efforts=(), default_effort="", thinking=(), sampling=True)
        return replace(plain, wire=wire, freeform_tools=False)
    plain = replace(capabilities, wire=wire, thinking=(), pdf=False)
    return plain if wire == "responses" else replace(plain, freeform_tools=False)


def is_chat_model(model: str) -> bool:
    """Return True if a model of this name can chat."""
    return not any(fnmatchcase(strip_prefix(model), pattern) for pattern in load_catalogue().not_chat)


def strip_prefix(model: str) -> str:
    """Return a model's name without the prefixes of makers and routers."""
    return model.rpartition("/")[2].lower()


@cache
def load_catalogue() -> ModelCatalogue:
    """Load the data file at its first use (some milliseconds)."""

    data = parse_toml(FILE.read_text(encoding="utf-8"))
    families = [model_family for family in data["family"] for model_family in _parse_family(family)]
    return ModelCatalogue(not_chat=tuple(data["not_chat"]), models=tuple(families))


def _parse_family(family: dict[str, Any]) -> list[ModelFamily]:
    variants = family.pop("models", None) or [{"names": ["*"]}]
    common_names = tuple(family.pop("names"))
    patterns = [(common_names, tuple(variant.pop("names"))) for variant in variants]
    capability_sets = [convert(family | variant, Capabilities) for variant in variants]
    return [
        ModelFamily(patterns=pair, capabilities=capabilities)
        for pair, capabilities in zip(patterns, capability_sets, strict=True)
    ]


def compute_cost(model_id: str, usage: Usage) -> float | None:
    """Return the US dollars for one call to `provider/name`; 0.0 for a local model, None if the price is unknown."""
    provider, _, name = model_id.partition("/")
    return 0.0 if provider in LOCAL else compute_list_price(name, _get_listed(provider), usage)


def find_context_window(model_id: str) -> int:
    """Return the context window of `provider/name` in tokens, 0 = unknown."""
    provider, _, name = model_id.partition("/")
    if provider in LOCAL:
        return 0
    if (context_window := find_canonical_capabilities(name).context_window) or not _get_listed(provider):
        return context_window
    model = find_model(name, provider)
    return 0 if model is None else model.window


def _get_listed(provider: str) -> str:
    """Return the provider if the price list names it so; else "", and the maker of a model is looked up by its name."""
    return provider if provider in _LISTED else ""
