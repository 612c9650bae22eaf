"""The tools of servers as the model knows them: their names, how they are described, and the lists that are kept.

A list is kept by the hash of its server's entry, so that a server is started when one of its tools is called and not to
ask what it has.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from core.filesystem.atomic_write import replace_file
from core.mcp.sdk_connection import ToolDefinition
from core.records import decode_json
from core.sandbox.plain_text import strip_escapes
from core.user_dirs import get_cache_dir

MAX_DESCRIPTION: Final = 2_000  # characters of a description that the model is told; the rest is in search_tools
MAX_FOUND: Final = 8
_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]")
_WORD: Final = re.compile(r"[a-z0-9]+")


class OfferedTool(Struct, frozen=True, kw_only=True):
    """A tool of a server under the `name` that the model calls it by."""

    name: str
    server: str
    definition: ToolDefinition

    @property
    def must_ask(self) -> bool:
        """True if the server wants the user asked about each call."""
        return bool((self.definition.meta or {}).get("anthropic/requiresUserInteraction"))

    def describe(self, limit: int = MAX_DESCRIPTION) -> str:
        """Return the tool in prose: its description, and the schema of its arguments."""
        text = strip_escapes(self.definition.description or "").strip()
        text = text if len(text) <= limit else f"{text[:limit]} […]"
        schema = json.dumps(simplify_schema(self.definition.input_schema), ensure_ascii=False, separators=(",", ":"))
        return f"- {self.name}: {text}\n  arguments: {strip_escapes(schema)}"


class _KeptList(Struct, frozen=True):
    version: str
    tools: tuple[ToolDefinition, ...]


def name_tools(server: str, definitions: Iterable[ToolDefinition]) -> dict[str, OfferedTool]:
    """Return tools by the name that they are called by: `mcp__<server>__<tool>`, which no built-in one has."""
    found: dict[str, OfferedTool] = {}
    for each in definitions:
        base = f"mcp__{_OTHER.sub('_', server)}__{_OTHER.sub('_', each.name)}"
        name, number = base, 2
        while name in found:
            name, number = f"{base}_{number}", number + 1
        found[name] = OfferedTool(name=name, server=server, definition=each)
    return found


def simplify_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema without what tells a model nothing."""
    return {key: value for key, value in schema.items() if key not in {"$schema", "title", "additionalProperties"}}


def compute_digests(definitions: Iterable[ToolDefinition]) -> dict[str, str]:
    """Return a digest of each definition by its name: of everything that the model is told."""
    return {
        each.name: hashlib.sha256(msgspec.json.encode(each, order="deterministic")).hexdigest() for each in definitions
    }


def find_tools(query: str, tools: Sequence[OfferedTool]) -> list[OfferedTool]:
    """Find the tools that a query names or speaks of, best first."""
    wanted = set(_WORD.findall(query.lower()))
    scored = []
    for tool in tools:
        if tool.name == query.strip():
            return [tool]
        names = set(_WORD.findall(tool.name.lower())) - {"mcp"}
        words = set(_WORD.findall((tool.definition.description or "").lower()))
        score = 3 * len(wanted & names) + len(wanted & words)
        if score:
            scored.append((score, tool))
    return [tool for _, tool in sorted(scored, key=lambda each: (-each[0], each[1].name))][:MAX_FOUND]


def load_list(digest: str) -> tuple[ToolDefinition, ...] | None:
    """Load the kept list of a server; None = there is none."""
    try:
        return decode_json(_name_file(digest).read_bytes(), _KeptList).tools
    except (OSError, msgspec.MsgspecError):
        return None


def save_list(digest: str, version: str, tools: tuple[ToolDefinition, ...]) -> None:
    """Keep the list of a server; where that can't be done it is only asked for again."""
    place = _name_file(digest)
    with suppress(OSError):
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(place, msgspec.json.encode(_KeptList(version, tools)))


def _name_file(digest: str) -> Path:
    return get_cache_dir() / "mcp" / f"{digest}.json"
