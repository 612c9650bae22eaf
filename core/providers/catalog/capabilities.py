"""The abilities and context windows of models.

They come from the models endpoint, else from `models.toml`, which also has what a price list does not: the terms of a
cache, the service tiers, and the day on which a model ends.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, Literal, get_args
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import asdict, replace

from core.edit_formats import EditFormat
from core.protocol.choices import ServiceTier
from core.protocol.messages import Effort, WireProtocol
from core.providers.catalog.reported import ReportedCapabilities, Thinking, load_reported
from core.records import convert, parse_toml

FILE: Final = Path(__file__).with_name("models.toml")
# Local servers: they choose the window themselves and are free of charge.
OWN_HOSTS: Final = ["api.anthropic.com", "api.openai.com"]
LOCAL: Final = frozenset({"scripted", "ollama", "lmstudio", "llamacpp", "vllm"})


class PriceStep(Struct, frozen=True, kw_only=True):
    """The tokens of a prompt above which each of them costs `factor` times as much; 0 = no number of tokens."""

    tokens: int = 0
    factor: float = 1.0


class ListPrice(Struct, frozen=True, kw_only=True):
    """US dollars per million tokens, for a model that the price list does not have yet. A prompt of more than `step`
    tokens (0 = any) costs `step_input` and `step_output` times as much."""

    input: float
    output: float
    cached: float
    cache_write: float = 0
    step: int = 0
    step_input: float = 1
    step_output: float = 1


class CacheTerms(Struct, frozen=True, kw_only=True):
    """The lifetimes of a prompt's cache in seconds: the usual one, and one that can be requested (0 = there is none).
    `long_factor`: the price of writing a long entry, in prices of writing a usual one."""

    short: int = 0
    long: int = 0
    long_factor: float = 1.0


class TierFactors(Struct, frozen=True, kw_only=True, rename={"two_hours": "2h", "eight_hours": "8h"}):
    """The prices of the service tiers in standard prices, 0 = not offered. `two_hours`, `eight_hours`: the answer may
    take so long."""

    fast: float = 0
    flex: float = 0
    two_hours: float = 0
    eight_hours: float = 0

    def get_factor(self, tier: str) -> float:
        """Return the price of a tier; 0 = there is no such tier, or "" was given."""
        return {"fast": self.fast, "flex": self.flex, "2h": self.two_hours, "8h": self.eight_hours}.get(tier, 0)

    @property
    def names(self) -> tuple[ServiceTier, ...]:
        """The tiers that are offered."""
        return tuple(tier for tier in get_args(ServiceTier) if self.get_factor(tier))


class Capabilities(Struct, frozen=True, kw_only=True):
    """The capabilities of one model. `efforts` from the least to the most, () = no choice; "none" = thinking can be
    switched off. `default_effort`: the effort if none is sent, "" = unknown. `thinking`: the types of thinking that can
    be requested, the best first.

    `sampling`: `temperature` may be sent. `freeform_tools`: tools whose input is free text; `open_objects`: an object
    in a tool's definition need not list its fields; `tool_search`: it loads tools that a search in its conversation
    finds. `context_window` and `max_output` in tokens, 0 = unknown. `wire`: the protocol that it speaks, None = its
    provider's. `edits`: the edit format that it is best at, "" = no particular one.

    `alternates`: user and assistant messages have to alternate; `takes_system`: a system prompt is accepted;
    `progress`: the server tells how much of a prompt it has read; `unbounded`: it lets an answer run until the window
    is full.

    `chat_effort`: the effort in conversations if the user chose none, "" = the model's default. `changes_effort`: the
    effort may change within a conversation without loss of the cache. `compacts`: the API can summarise a conversation.
    `retires_at`: the day (ISO) from which the model is gone, `successor`: its replacement; "" = not announced.
    `price`: its maker's price where the price list has none; `price_like`: the model whose price counts where this one
    has neither.
    """

    efforts: tuple[Effort, ...] = ()
    default_effort: Effort | Literal[""] = ""
    thinking: tuple[Thinking, ...] = ()
    sampling: bool = True
    images: bool = True
    pdf: bool = False
    tools: bool = True
    freeform_tools: bool = False
    open_objects: bool = True
    tool_search: bool = False
    alternates: bool = False
    takes_system: bool = True
    progress: bool = False
    unbounded: bool = False
    context_window: int = 0
    max_output: int = 0
    wire: WireProtocol | None = None
    edits: EditFormat | Literal[""] = ""
    chat_effort: Effort | Literal[""] = ""
    changes_effort: bool = False
    compacts: bool = False
    cache: CacheTerms = CacheTerms()
    tiers: TierFactors = TierFactors()
    retires_at: str = ""
    successor: str = ""
    price: ListPrice | None = None
    price_like: str = ""


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
    if origin and not _is_makers_own(origin):
        capabilities = _remove_own_features(capabilities)
    if provider in LOCAL:
        capabilities = replace(capabilities, context_window=0, max_output=0, unbounded=True)
    report = load_reported(origin, model)
    return capabilities if report is None else merge_reported(capabilities, report)


def merge_reported(listed_capabilities: Capabilities, report: ReportedCapabilities) -> Capabilities:
    """Replace listed capabilities by reported ones."""
    news = {name: value for name, value in asdict(report).items() if value is False or value not in (None, 0, "")}
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
    away = replace(_remove_own_features(capabilities), wire=wire)
    if wire == "messages":
        plain = replace(away, efforts=(), default_effort="", chat_effort="", thinking=(), sampling=True)
        return replace(plain, freeform_tools=False, tool_search=False)
    plain = replace(away, thinking=(), pdf=False)
    return plain if wire == "responses" else replace(plain, freeform_tools=False, tool_search=False)


def _remove_own_features(capabilities: Capabilities) -> Capabilities:
    """Return the capabilities without those that depend on the maker's own service, whatever the protocol."""
    finds_tools = capabilities.tool_search and capabilities.wire != "messages"  # Other hosts drop what they don't know.
    plain = replace(capabilities, changes_effort=False, compacts=False, tool_search=finds_tools)
    return replace(plain, cache=CacheTerms(), tiers=TierFactors(), retires_at="")


def _is_makers_own(origin: str) -> bool:
    """Return True if an address is one of the makers' own whose features `models.toml` describes."""
    host = urlsplit(origin).hostname or ""
    return any(host == own or host.endswith(f".{own}") for own in OWN_HOSTS)


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
