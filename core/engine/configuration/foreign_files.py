"""The report on other agents' files of the user and of the project: their use here, and their parts without effect.

Nothing in them is ignored in silence: the report names each file that is read, what it is used for, and each entry that
would restrict or configure something and does not. The first start after a change says in one line that there are such
entries, and where they are listed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from core.config.rules.loading import load_rule_files
from core.config.rules.roots import HOME_FILES, HOME_RULE_DIRECTORIES, iterate_rule_paths
from core.errors import ConfigError, StateError
from core.mcp.config_files import PROJECT_FILES, load_servers
from core.mcp.foreign_servers import OFF, USER_FILES, read_foreign_entries
from core.permissions.foreign_rules import CLAUDE_FILES, CURSOR_FILES, FILES, OPENCODE_FILES, ForeignPermissions
from core.permissions.state_file import StateFile
from core.permissions.trusted_files import TrustCheck
from core.records import decode_json, parse_toml
from core.text.counting import count
from core.text.json_repairs import decode_marked, to_strict_json
from core.workspace import Workspace

FILE_NAME: Final = "foreign-files.json"
MAX_BYTES: Final = 512 * 1024
MAX_NAMED: Final = 12
MAX_SHOWN: Final = 200  # digests of what was named
WIDENING: Final = "it allows; only your own configuration does that here"
NO_EFFECT: Final = "no effect"
_SERVER_FILES: Final = ("~/.claude.json", "~/.cursor/mcp.json", *(f"~/{name}" for name in USER_FILES), *PROJECT_FILES)
_FIRST_PARTS: Final = frozenset(f"~/{directory}/" for directory, _ in (*HOME_FILES, *HOME_RULE_DIRECTORIES))
# Keys that are used elsewhere, or say nothing about the agent.
_KNOWN_KEYS: Final = frozenset(
    {"$schema", "version", "permissions", "permission", "tools", "mcp", "mcp_servers", "hooks"}
)
_SILENT_FILES: Final = frozenset({"~/.claude.json"})  # mostly the state of that program


class ForeignFile(Struct, frozen=True, kw_only=True):
    """A file of another agent. `used`: what it is used for, a line each; `unused`: what has no effect, with the
    reason."""

    path: str
    used: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()


class _Shown(Struct, frozen=True, kw_only=True):
    digests: tuple[str, ...] = ()


def list_foreign_files(
    workspace: Workspace, check: TrustCheck | None, *, has_nested: bool = True
) -> tuple[ForeignFile, ...]:
    """List the files of other agents that exist. `check` None: those of the project are not read. `has_nested`: also
    instructions in its directories, which takes a walk, and asks about those that are new."""
    used: dict[str, list[str]] = {}
    unused: dict[str, list[str]] = {}
    for lines, path, text in (
        *_report_instructions(workspace, check, has_nested=has_nested),
        *_report_permissions(workspace, check),
        *_report_servers(workspace, check),
        *_report_keys(workspace, check),
    ):
        used.setdefault(path, [])
        unused.setdefault(path, [])
        (used if lines == "used" else unused)[path].append(text)
    paths = sorted(used, key=lambda path: (not path.startswith("~"), path))
    return tuple(ForeignFile(path=path, used=tuple(used[path]), unused=tuple(unused[path])) for path in paths)


Reported = tuple[str, str, str]


def _report_instructions(workspace: Workspace, check: TrustCheck | None, *, has_nested: bool) -> Iterator[Reported]:
    nearby_paths = tuple(iterate_rule_paths(workspace)) if check is not None and has_nested else ()
    files = load_rule_files(workspace, check, nearby_paths=nearby_paths)
    for rule in files.rules:
        if _is_foreign(rule.path) and not rule.owner:
            yield "used", rule.path, f"instructions{f' ({rule.note})' if rule.note else ''}"
    for problem in files.problems:
        if _is_foreign(problem.path):
            yield "unused", problem.path, problem.note


def _is_foreign(path: str) -> bool:
    """True for a file of the user that another agent reads; those of the project are rules of every agent."""
    return path.startswith(tuple(_FIRST_PARTS)) or path.rpartition("/")[2] in {"GEMINI.md", "copilot-instructions.md"}


def _report_permissions(workspace: Workspace, check: TrustCheck | None) -> Iterator[Reported]:
    for path, rules in ForeignPermissions(workspace.root).read(is_trusted=check is not None):
        if rules.rules:
            choices = ", ".join(sorted({rule.choice for rule in rules.rules}, reverse=True))
            yield "used", path, f"{count('rule', len(rules.rules))} ({choices})"
        for entry in rules.unused:
            yield "unused", path, f"{entry.entry or 'the file'}: {entry.reason}"


def _report_servers(workspace: Workspace, check: TrustCheck | None) -> Iterator[Reported]:
    configured = load_servers(workspace, check)
    for server in configured.servers:
        if server.source in _SERVER_FILES and server.source != ".mcp.json":
            terms = ", offered: it asks before its first start" if server.is_offered or server.is_project else ""
            yield "used", server.source, f"MCP server {server.name}{terms}"
    for problem in configured.problems:
        if problem.source in _SERVER_FILES and problem.source != ".mcp.json":
            yield "unused", problem.source, f"{f'MCP server {problem.name}: ' if problem.name else ''}{problem.reason}"
    for path, data in _read_files(workspace, check, tuple(f"~/{name}" for name in USER_FILES)):
        try:
            for name in read_foreign_entries(path, data)[1]:
                yield "unused", path, f"MCP server {name}: {OFF}"
        except ConfigError:  # named among the problems above
            continue


def _report_keys(workspace: Workspace, check: TrustCheck | None) -> Iterator[Reported]:
    """Report the settings of other agents that nothing here corresponds to."""
    for path, data in _read_files(
        workspace, check, (*FILES, *(f"~/{name}" for name in USER_FILES[:1]), *USER_FILES[:1])
    ):
        document = _decode(path, data)
        permissions = document.get("permissions")
        inner = permissions if isinstance(permissions, dict) and path in (*CLAUDE_FILES, *CURSOR_FILES) else {}
        if inner.get("allow"):
            yield "unused", path, f"permissions.allow: {WIDENING}"
        if document.get("hooks") and path in CLAUDE_FILES:
            yield "used", path, "hooks (agent-tui hooks lists them)"
        others = [key for key in document if key not in _KNOWN_KEYS]
        others += [f"permissions.{key}" for key in inner if key not in {"allow", "ask", "deny"}]
        if path in CURSOR_FILES and inner.get("ask"):
            others.append("permissions.ask")
        if path in OPENCODE_FILES and "permissions" in document:
            others.append("permissions")
        if others:
            more = f" and {len(others) - MAX_NAMED} more" if len(others) > MAX_NAMED else ""
            yield "unused", path, f"{', '.join(others[:MAX_NAMED])}{more}: {NO_EFFECT}"


def _read_files(workspace: Workspace, check: TrustCheck | None, paths: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    for path in dict.fromkeys(paths):
        is_own = path.startswith("~")
        location = Path(path).expanduser() if is_own else workspace.root / path
        try:
            if (is_own or check is not None) and path not in _SILENT_FILES and location.is_file():
                with location.open("rb") as file:
                    yield path, file.read(MAX_BYTES)
        except OSError:
            continue


def _decode(path: str, data: bytes) -> dict[str, Any]:
    try:
        document = parse_toml(decode_marked(data)) if path.endswith(".toml") else decode_json(to_strict_json(data))
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def build_notice(workspace: Workspace, check: TrustCheck | None) -> str | None:
    """Return one line about entries that have no effect, None: there are none, or they were named before."""
    files = list_foreign_files(workspace, check, has_nested=False)
    unused = [f"{file.path} {line}" for file in files for line in file.unused]
    if not unused:
        return None
    digest = hashlib.sha256("\n".join(unused).encode()).hexdigest()[:16]
    state = StateFile(FILE_NAME, _Shown)
    try:
        if digest in state.read().digests:
            return None
        state.update(lambda book: _Shown(digests=(*book.digests, digest)[-MAX_SHOWN:]))
    except StateError:
        return None
    used = count("part", sum(len(file.used) for file in files))
    return (
        f"Files of other agents: {used} used here, {count('part', len(unused))} without effect (said once; "
        "`agent-tui import` lists them)."
    )
