"""The capabilities of models, as data: what its provider's models endpoint told, else the file `models.toml`."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import asdict, replace

from core.edit_formats import EditFormat
from core.protocol.messages import Effort, WireProtocol
from core.providers.catalog.reported import ReportedCapabilities, Thinking, load_reported
from core.records import convert, parse_toml

FILE: Final = Path(__file__).with_name("models.toml")
# Servers of this machine: they choose the window themselves, and ask for no money.
LOCAL: Final = frozenset({"scripted", "ollama", "lmstudio", "llamacpp", "vllm"})


class Capabilities(Struct, frozen=True, kw_only=True):
    """The capabilities of one model. `efforts` from the least to the most, () = it has none to choose; "none" = it need
    not think. `default_effort`: what it takes when none is sent, "" = not known. `thinking`: the types of thinking that
    can be asked for, the best first.

    `sampling`: whether `temperature` may be sent. `freeform_tools`: tools whose input is free text. `context_window`
    and `max_output` in tokens, 0 = not known. `wire`: the protocol it speaks, None = its provider's. `edits`: the edit
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
    """`patterns`: globs that the name has to fit, one of each group."""

    patterns: tuple[tuple[str, ...], ...]
    capabilities: Capabilities

    def matches(self, name: str) -> bool:
        return all(any(fnmatchcase(name, pattern) for pattern in group) for group in self.patterns)


class ModelCatalogue(Struct, frozen=True, kw_only=True):
    """The data file. `not_chat`: patterns of models that one can't converse with."""

    not_chat: tuple[str, ...]
    models: tuple[ModelFamily, ...]


def find_capabilities(provider: str, model: str, *, wire: WireProtocol, origin: str = "") -> Capabilities:
    """The capabilities of `model` at a provider that speaks `wire` by itself, told by the models endpoint at `origin`
    or listed. Never slow; `wire` of the result is never None."""
    listed = _adapt_to_wire(find_canonical_name(model), wire)
    listed = replace(listed, context_window=0, max_output=0) if provider in LOCAL else listed
    told = load_reported(origin, model)
    return listed if told is None else merge_reported(listed, told)


def merge_reported(listed: Capabilities, told: ReportedCapabilities) -> Capabilities:
    """Replace what the data file says by what was told."""
    news = {name: value for name, value in asdict(told).items() if value is False or value not in (None, 0)}
    best = told.thinking[:1] if told.thinking is not None else listed.thinking[:1]
    if listed.efforts and told.efforts and (told.thinking is None or best == ("enabled",)):
        del news["efforts"]  # that it has some was told, not which; or they are budgets of ours
    found: Capabilities = replace(listed, **news)
    return found if found.default_effort in found.efforts else replace(found, default_effort="")


@lru_cache(maxsize=256)
def find_canonical_name(model: str) -> Capabilities:
    """The data file's entry for a model of this name, wherever it runs; `wire` is its maker's."""
    name = strip_prefix(model)
    return next((each.capabilities for each in load_catalogue().models if each.matches(name)), Capabilities())


def _adapt_to_wire(found: Capabilities, wire: WireProtocol) -> Capabilities:
    """The same at a host that speaks `wire`: what only its maker's own API has is not there elsewhere."""
    if found.wire == wire == "messages" or (wire == "responses" and found.wire in {"responses", "chat"}):
        return found
    if wire == "messages":
        plain = replace(found, efforts=(), default_effort="", thinking=(), sampling=True)
        return replace(plain, wire=wire, freeform_tools=False)
    plain = replace(found, wire=wire, thinking=(), pdf=False)
    return plain if wire == "responses" else replace(plain, freeform_tools=False)


def is_chat_model(model: str) -> bool:
    """Return True if one can converse with a model of this name."""
    return not any(fnmatchcase(strip_prefix(model), pattern) for pattern in load_catalogue().not_chat)


def strip_prefix(model: str) -> str:
    """A model's name without the makers and routers before it."""
    return model.rpartition("/")[2].lower()


@cache
def load_catalogue() -> ModelCatalogue:
    """The data file, read at its first use (some milliseconds)."""

    data = parse_toml(FILE.read_text(encoding="utf-8"))
    listed = [each for family in data["family"] for each in _parse_family(family)]
    return ModelCatalogue(not_chat=tuple(data["not_chat"]), models=tuple(listed))


def _parse_family(family: dict[str, Any]) -> list[ModelFamily]:
    variants = family.pop("models", None) or [{"names": ["*"]}]
    shared = tuple(family.pop("names"))
    patterns = [(shared, tuple(variant.pop("names"))) for variant in variants]
    able = [convert(family | variant, Capabilities) for variant in variants]
    return [ModelFamily(patterns=each, capabilities=found) for each, found in zip(patterns, able, strict=True)]
