"""The head of every request of a session: system prompt and tools, fixed when the session starts.

Providers cache by prefix, so it never changes while the session lives: a rule file edited meanwhile binds the next
session. It is kept beside the log, so a resumed session sends the same bytes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from core.agent.layout import project_layout
from core.agent.limits import prefix_size
from core.agent.tags import as_data, attribute
from core.dialects.base import Dialect
from core.dialects.native import NativeDialect
from core.permissions.voices import Hears, everything
from core.prompts import render, tool_text
from core.providers.base import ToolSpec
from core.rules import Rule, RuleSet, load_rules
from core.secrets import masked
from core.workspace import Workspace

FILE = "prefix.json"


class Prefix(Struct, frozen=True, kw_only=True):
    system: str
    tools: tuple[ToolSpec, ...]


class Prepared(Struct, frozen=True, kw_only=True):
    """What a session needs before its first step. `size`: bytes of the prefix; `dialect`: what the model speaks.

    `changed`: the prefix is not the one that the session began with.
    """

    prefix: Prefix
    rules: RuleSet
    layout: str
    size: int
    dialect: Dialect = NativeDialect()
    changed: bool = False


def system_prompt(rules: Sequence[Rule], *, short: bool = False) -> str:
    """It is kept beside the log and sent: a key of ours that a rule holds does not stand in it."""
    return masked(render("system_short" if short else "system", rules=shown(rules)))


def shown(rules: Sequence[Rule]) -> list[dict[str, str]]:
    """Rules as a template takes them."""
    return [{"path": attribute(rule.path), "text": as_data(rule.text)} for rule in rules]


def prepare(workspace: Workspace, directory: Path, *, trusted: bool = True, hears: Hears = everything) -> Prepared:
    """Read rules and layout, make the prefix or take the one that the session began with. Runs in a thread.

    The rules of a project that is not trusted are not read; those whose bytes are not heard are left out.
    """
    from core.tools.registry import tool_specs

    rules = load_rules(workspace, hears) if trusted else RuleSet()
    fresh = Prefix(system=system_prompt(rules.always), tools=tool_specs(tool_text))
    prefix, changed = kept_or_made(directory, FILE, fresh)
    size = prefix_size(prefix.system, prefix.tools)
    return Prepared(prefix=prefix, rules=rules, layout=project_layout(workspace), size=size, changed=changed)


def kept_or_made(directory: Path, name: str, fresh: Prefix) -> tuple[Prefix, bool]:
    """The prefix that the session began with; `fresh`, kept from now on, if there is none for these tools. And whether
    it takes the place of another one."""
    kept = _kept(directory / name)
    if kept is not None and kept.tools == fresh.tools:
        return kept, False
    keep(directory, name, msgspec.json.encode(fresh))
    return fresh, kept is not None


def forget(directory: Path) -> None:
    """Let the session begin anew; for one that has said nothing to a model yet."""
    for path in directory.glob("prefix*.json"):
        path.unlink(missing_ok=True)


def _kept(path: Path) -> Prefix | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Prefix)
    except (OSError, msgspec.MsgspecError):
        return None


def keep(directory: Path, name: str, data: bytes) -> None:
    """Whole or not at all; a session that can't keep it only loses the provider's cache when it is resumed."""
    temporary = directory / f".{name}.{os.getpid()}.tmp"
    with suppress(OSError):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        temporary.replace(directory / name)
