"""Files that name servers, changed at the user's word: one entry comes or goes, and every other byte stays.

A file with a fault in it is not made worse: it is refused, with the place of the fault.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from core.errors import ConfigError, StateError
from core.filesystem.atomic_write import replace_file
from core.mcp.server_config import NAME, parse_entries
from core.notebooks.json_spans import JsonProblem, Value, scan_members, scan_value, skip_space

SERVERS_KEY: Final = "mcpServers"
MAX_FILE: Final = 8 << 20
_INDENT: Final = "  "
_SHARED: Final = 0o644  # permissions of a file that the project has from now on; the user's own are 0600


def add_entry(text: str, name: str, entry: Mapping[str, Any]) -> str:
    """Return the text of a file ("" = it is new) with one entry more. Raises `ConfigError`: the file is broken, the
    entry makes no server, or there is one of this name."""
    _, problems = parse_entries({name: entry}, "the entry", is_project=False)
    if problems:
        raise ConfigError(f"{name[:64]} makes no server: {problems[0].reason}.")
    if not text.strip():
        return f"{json.dumps({SERVERS_KEY: {name: entry}}, indent=2, ensure_ascii=False)}\n"
    top, servers = _scan(text)
    if servers is None:
        return _insert(text, top, SERVERS_KEY, {name: entry})
    if name in scan_members(text, servers.start):
        raise ConfigError(f"there is a server {name!r} already.", hint=f"agent-tui mcp remove {name} removes it.")
    return _insert(text, servers, name, entry)


def remove_entry(text: str, name: str) -> str:
    """Return the text of a file without an entry. Raises `ConfigError`: the file is broken, or has no such entry."""
    servers = _scan(text)[1] if text.strip() else None
    members = list(scan_members(text, servers.start).values()) if servers is not None else []
    index = next((number for number, member in enumerate(members) if member.key == name), None)
    if index is None or servers is None:
        raise ConfigError(f"it names no server {name!r}.", hint="agent-tui mcp list shows where each stands: --scope.")
    if len(members) == 1:
        start, end = servers.start + 1, servers.end - 1
    elif index + 1 < len(members):
        start, end = members[index].key_start, members[index + 1].key_start
    else:
        start, end = members[index - 1].end, members[index].end
    return text[:start] + text[end:]


def _scan(text: str) -> tuple[Value, Value | None]:
    """Return the object of the file and that of its servers, None = it has none. Raises `ConfigError`."""
    try:
        top = scan_value(text, 0)
        if not isinstance(top.value, dict) or skip_space(text, top.end) < len(text):
            raise JsonProblem("expected one object", top.start)
        servers = scan_members(text, top.start).get(SERVERS_KEY)
        if servers is not None and not isinstance(servers.value, dict):
            raise JsonProblem(f"“{SERVERS_KEY}” has to be an object", servers.start)
        if servers is not None:
            scan_members(text, servers.start)
    except JsonProblem as problem:
        line = text.count("\n", 0, problem.at) + 1
        raise ConfigError(f"it is no valid JSON: {problem}, line {line}.", hint="Mend it first.") from None
    return top, servers


def _insert(text: str, target: Value, key: str, value: Any) -> str:
    """Return the text with one member more at the end of an object, indented as the others are."""
    members = list(scan_members(text, target.start).values())
    outer = _find_indent(text, target.key_start if target.key else target.start)
    inner = _find_indent(text, members[-1].key_start) if members else None
    end = "\r\n" if "\r\n" in text else "\n"
    if members and inner is None:  # all in one line
        return f"{text[: members[-1].end]}, {json.dumps(key)}: {json.dumps(value)}{text[members[-1].end :]}"
    indent = inner if inner is not None else f"{outer or ''}{_find_unit(text)}"
    lines = json.dumps({key: value}, indent=_find_unit(text), ensure_ascii=False).splitlines()[1:-1]
    unit = len(_find_unit(text))
    addition = end.join(f"{indent}{line[unit:]}" for line in lines)
    if members:
        return f"{text[: members[-1].end]},{end}{addition}{text[members[-1].end :]}"
    return f"{text[: target.start]}{{{end}{addition}{end}{outer or ''}}}{text[target.end :]}"


def _find_indent(text: str, offset: int) -> str | None:
    """Return the white space that the line of a place begins with; None = other things stand before the place."""
    before = text[text.rfind("\n", 0, offset) + 1 : offset]
    return before if not before.strip(" \t") else None


def _find_unit(text: str) -> str:
    """Return the white space of one level: that of the first line which has some."""
    match = re.search(r"^[ \t]+(?=\S)", text, re.MULTILINE)
    return match[0] if match else _INDENT


def change_file(path: Path, name: str, entry: Mapping[str, Any] | None, *, is_shared: bool) -> None:
    """Add an entry to a file, or remove the one of that name (`entry` None). Raises `ConfigError`, `StateError`.

    `is_shared`: it is one of a project; where that is a link, it is left alone.
    """
    if not NAME.fullmatch(name):
        raise ConfigError(
            f"{name[:64]!r} can't be the name of a server.", hint="Use 1 to 64 letters, digits, _ . or -."
        )
    if is_shared and (path.is_symlink() or path.parent.is_symlink()):
        raise ConfigError(f"{path} is a link.", hint="Change the file that it leads to yourself.")
    target = path.resolve()
    try:
        with target.open(encoding="utf-8", newline="") as file:
            before = file.read(MAX_FILE)
        mode = stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        before, mode = "", _SHARED if is_shared else 0o600
    except (OSError, UnicodeDecodeError) as problem:
        raise StateError(f"{path} can't be read: {problem}.") from problem
    try:
        after = remove_entry(before, name) if entry is None else add_entry(before, name, entry)
    except ConfigError as problem:
        raise ConfigError(f"{path}: {problem.message}", hint=problem.hint) from None
    try:
        target.parent.mkdir(mode=0o755 if is_shared else 0o700, parents=True, exist_ok=True)
        replace_file(target, after.encode())
        target.chmod(mode)
    except OSError as problem:
        raise StateError(f"{path} can't be written: {problem.strerror}.", hint="Make it writable.") from problem
