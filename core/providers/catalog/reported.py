"""The reports of models endpoints about their models, in the user's cache directory: one file for every address.

A cache file that can't be read or written is ignored; `models.toml` fills in what an endpoint does not report. A file
is read at the first use of an address, and written after every new report.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, get_args
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, field
from msgspec.structs import asdict, replace

from core.clock import now_ms
from core.errors import ConfigError
from core.filesystem.private_files import read_private, write_private
from core.patterns import compile_lazily
from core.protocol.messages import Effort
from core.providers.base import ModelInfo
from core.providers.wire.wire_values import get_table
from core.records import decode_json
from core.user_dirs import get_cache_dir

Thinking = Literal["adaptive", "between_tools", "enabled", "disabled"]
FRESH_MS: Final = 7 * 24 * 3600 * 1000  # A report is not refreshed before this age.
BUDGETED: Final[tuple[Effort, ...]] = (
    "none",
    "low",
    "medium",
    "high",
)  # For models with a thinking budget.
_DAY: Final = compile_lazily(r"20\d\d-[01]\d-[0-3]\d")
_THINKING: Final[tuple[Thinking, ...]] = ("adaptive", "enabled", "between_tools", "disabled")
_WINDOWS: Final = (
    "context_length",
    "max_model_len",
    "context_window",
    "max_input_tokens",
    "loaded_context_length",
    "max_context_length",
    "n_ctx",
)


class ReportedCapabilities(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The report on one model; None, 0 and "" = not reported. The fields are those of `Capabilities`."""

    efforts: tuple[Effort, ...] | None = None
    thinking: tuple[Thinking, ...] | None = None
    sampling: bool | None = None
    images: bool | None = None
    pdf: bool | None = None
    tools: bool | None = None
    alternates: bool | None = None
    takes_system: bool | None = None
    progress: bool | None = None
    unbounded: bool | None = None
    context_window: int = 0
    max_output: int = 0
    retires_at: str = ""


class _CacheEntry(Struct, kw_only=True):
    """The contents of a file. `asked`: when the address last reported a model, or was asked without result (ms since
    the epoch)."""

    origin: str = ""
    asked: dict[str, int] = field(default_factory=dict)
    models: dict[str, ReportedCapabilities] = field(default_factory=dict)


_cache: dict[Path, _CacheEntry] = {}


def load_reported(origin: str, model: str) -> ReportedCapabilities | None:
    """Return the report of an address's models endpoint on a model, None = there is none."""
    return _load_cache(origin).models.get(model) if origin else None


def is_due(origin: str, model: str) -> bool:
    """Return True if the capabilities of a model should be requested from an address."""
    return is_due_at(_load_cache(origin).asked.get(model, 0))


def is_due_at(asked: int) -> bool:
    """Return True if a report of this time (ms since the epoch) is too old."""
    return now_ms() - asked > FRESH_MS


def save_reported(origin: str, entries: Iterable[Mapping[str, Any]], *, requested_model: str = "") -> None:
    """Store the reports in the entries of a models endpoint. `requested_model`: the one model that was asked for.
    Writes a file."""
    save_reports(origin, {str(entry.get("id")): parse_reported(entry) for entry in entries}, requested=requested_model)


def save_reports(
    origin: str, reports: Mapping[str, ReportedCapabilities], *, requested: str = "", keep: bool = True
) -> None:
    """Store reports by the models' names. `requested`: the one model that was asked for; `keep` False: for this process
    alone, else a file is written, unless it would say the same."""
    path, before = _cache_path(origin), _load_cache(origin)
    news = {name: report for name, report in reports.items() if report != ReportedCapabilities()}
    models = before.models | {name: _update(before.models.get(name), report) for name, report in news.items()}
    times = before.asked | dict.fromkeys([*models.keys() & reports.keys(), *filter(None, (requested,))], now_ms())
    cache_entry = _cache[path] = _CacheEntry(origin=origin, asked=times, models=models)
    is_known = models == before.models and times.keys() == before.asked.keys() and requested in before.asked
    if not keep or (is_known and not is_due_at(before.asked[requested])):
        return
    with suppress(OSError):
        write_private(path, msgspec.json.encode(cache_entry))


def _update(old: ReportedCapabilities | None, new: ReportedCapabilities) -> ReportedCapabilities:
    """Return the old report with what the new one has: a list of models says less than the page of one model."""
    news = {name: value for name, value in asdict(new).items() if value is False or value not in (None, 0, "")}
    return new if old is None else replace(old, **news)


def parse_reported(entry: Mapping[str, Any]) -> ReportedCapabilities:
    """Parse an entry of a models endpoint: Anthropic's, OpenRouter's, Mistral's, Ollama's or another."""
    capabilities = get_table(entry, "capabilities")
    plain = {name: value for name, value in capabilities.items() if isinstance(value, bool)}
    words = entry.get("capabilities")
    if isinstance(words, list) and "completion" in words:  # Ollama
        plain = {"vision": "vision" in words, "function_calling": "tools" in words}
    modalities = get_table(entry, "architecture").get("input_modalities")
    input_kinds = modalities if isinstance(modalities, list) and modalities else None
    return ReportedCapabilities(
        efforts=_parse_efforts(entry, capabilities),
        thinking=_parse_thinking(capabilities),
        sampling=_has_parameter(entry, "temperature"),
        images=_pick_first(
            _is_supported(capabilities, "image_input"), plain.get("vision"), input_kinds and "image" in input_kinds
        ),
        pdf=_pick_first(_is_supported(capabilities, "pdf_input"), input_kinds and "file" in input_kinds),
        tools=_pick_first(plain.get("function_calling"), _has_parameter(entry, "tools")),
        context_window=parse_window(entry),
        max_output=parse_count(entry, "max_completion_tokens")
        or parse_count(get_table(entry, "top_provider"), "max_completion_tokens")
        or (parse_count(entry, "max_tokens") if capabilities else 0),
        retires_at=_parse_day(entry),
    )


def parse_model_infos(answer: object) -> tuple[ModelInfo, ...]:
    """Parse an answer to GET /models."""
    return tuple(ModelInfo(name=str(entry["id"]), context_window=parse_window(entry)) for entry in list_entries(answer))


def list_entries(answer: object) -> list[dict[str, Any]]:
    """Return the entries of an answer to GET /models."""
    data = answer.get("data") if isinstance(answer, dict) else None
    return [entry for entry in data if isinstance(entry, dict) and entry.get("id")] if isinstance(data, list) else []


def parse_window(entry: Mapping[str, Any]) -> int:
    """Return the context window of an entry, in tokens; servers use several names for it. 0 = none."""
    places = (entry, get_table(entry, "meta"))
    return next((count for name in _WINDOWS for table in places if (count := parse_count(table, name))), 0)


def _parse_efforts(entry: Mapping[str, Any], capabilities: dict[str, Any]) -> tuple[Effort, ...] | None:
    levels = get_table(capabilities, "effort")
    if "supported" in levels:
        thinks = _parse_thinking(capabilities) or ()
        if "adaptive" not in thinks:
            return BUDGETED if "enabled" in thinks else ()
        off: tuple[Effort, ...] = ("none",) if {"disabled", "between_tools"} & set(thinks) else ()
        return (*off, *(effort for effort in get_args(Effort) if _is_supported(levels, effort)))
    reasons = _has_parameter(entry, "reasoning_effort") or _has_parameter(entry, "reasoning")
    if reasons is None:
        return None
    return ("low", "medium", "high") if reasons else ()


def _parse_thinking(capabilities: dict[str, Any]) -> tuple[Thinking, ...] | None:
    thinking = get_table(capabilities, "thinking")
    if not isinstance(thinking.get("supported"), bool):
        return None
    types = get_table(thinking, "types")
    return tuple(kind for kind in _THINKING if _is_supported(types, kind)) if thinking["supported"] else ()


def _parse_day(entry: Mapping[str, Any]) -> str:
    """Parse the day of a model's end: Anthropic's `retires_at`, OpenAI's `shutdown_date`."""
    day = str(entry.get("retires_at") or entry.get("shutdown_date") or "")[:10]
    return day if _DAY.fullmatch(day) else ""


def _has_parameter(entry: Mapping[str, Any], name: str) -> bool | None:
    parameters = entry.get("supported_parameters")
    return name in parameters if isinstance(parameters, list) else None


def _is_supported(capabilities: Mapping[str, Any], name: str) -> bool | None:
    value = get_table(capabilities, name).get("supported")
    return value if isinstance(value, bool) else None


def _pick_first(*flags: bool | None) -> bool | None:
    return next((flag for flag in flags if flag is not None), None)


def parse_count(table: Mapping[str, Any], key: str) -> int:
    """Return a positive whole number of a table, 0 = there is none."""
    value = table.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _load_cache(origin: str) -> _CacheEntry:
    path = _cache_path(origin)
    if path not in _cache:
        cache_entry = _CacheEntry()
        with suppress(OSError, ConfigError, msgspec.MsgspecError, UnicodeError):
            cache_entry = decode_json(read_private(path) or b"{}", _CacheEntry)
        _cache[path] = cache_entry if cache_entry.origin == origin else _CacheEntry(origin=origin)
    return _cache[path]


def _cache_path(origin: str) -> Path:
    host = re.sub(r"[^A-Za-z0-9.-]", "_", urlsplit(origin).hostname or "")[:60]
    digest = hashlib.blake2b(origin.encode("utf-8", "replace"), digest_size=6).hexdigest()
    return get_cache_dir() / "models" / f"{host}-{digest}.json"
