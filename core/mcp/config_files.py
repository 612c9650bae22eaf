"""The files that name MCP servers, read in the order of their precedence and edited one entry at a time.

The project's files come before the user's own and those of plug-ins; of several entries with one name the first counts
as a whole. Nothing of an untrusted project is read, and a server of a project needs a consent as well (`consent`).
Files are read from the disk: an agent's proposal counts once it is accepted. An edit leaves every other byte of a file
as it is, and refuses a file that is not valid.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from core.config.rules.file_text import MAX_READ_BYTES
from core.errors import AgentTuiError, ConfigError, StateError
from core.extensions.plugins import PluginSource, find_extension_folders
from core.filesystem.atomic_write import replace_file
from core.mcp.foreign_servers import (
    CODEX_FILE,
    OPENCODE_FILES,
    USER_FILES,
    list_file_references,
    read_foreign_entries,
)
from core.mcp.server_config import NAME, ServerConfig, ServerProblem, parse_entries, parse_servers
from core.notebooks.json_spans import JsonProblem, Value, scan_members, scan_value, skip_space
from core.patterns import compile_lazily
from core.permissions.trusted_files import TrustCheck
from core.records import decode_json
from core.user_dirs import get_config_dir
from core.workspace import Workspace

FOREIGN_FILES: Final = (CODEX_FILE, *OPENCODE_FILES)
PROJECT_FILES: Final = (".mcp.json", ".cursor/mcp.json", *FOREIGN_FILES)
OWN_FILE: Final = "mcp.json"
_PLUGIN_ROOT: Final = compile_lazily(r"\$\{(?:CLAUDE|CURSOR)_PLUGIN_ROOT\}")
MAX_BYTES: Final = 8 << 20
NO_FILES: Final = "it takes a value from a file ({file:…}), which is not supported"
_UNTRUSTED: Final = "it has changed since you trusted this project"
SERVERS_KEY: Final = "mcpServers"
_INDENT: Final = "  "
_SHARED_MODE: Final = 0o644  # permissions of a new file of the project; the user's own get 0600


class ConfiguredServers(Struct, frozen=True):
    """The servers, one per name with the strongest entry, and the invalid entries."""

    servers: tuple[ServerConfig, ...] = ()
    problems: tuple[ServerProblem, ...] = ()


class _ConfigFile(Struct, frozen=True):
    source: str
    data: bytes
    is_project: bool = False


def load_servers(
    workspace: Workspace, is_trusted: TrustCheck | None, extra_configs: tuple[ServerConfig, ...] = ()
) -> ConfiguredServers:
    """Load all configured servers. `is_trusted` None: no file of the project is read. `extra_configs`: servers of no
    file, which take precedence."""
    servers = {config.name: config for config in extra_configs}
    problems: list[ServerProblem] = []
    file_problems: list[ServerProblem] = []
    for entry in _iterate_entries(workspace, is_trusted, file_problems):
        configs, wrong = entry
        problems += wrong
        for server in configs:
            servers.setdefault(server.name, server)
    return ConfiguredServers(tuple(servers.values()), (*file_problems, *problems))


Parsed = tuple[tuple[ServerConfig, ...], tuple[ServerProblem, ...]]


def _iterate_entries(
    workspace: Workspace, is_trusted: TrustCheck | None, problems: list[ServerProblem]
) -> Iterator[Parsed]:
    claude = _read_user_file(Path.home() / ".claude.json")
    if claude is not None:
        yield _parse_local_scope(claude, workspace.root)
    files = _read_project_files(workspace, is_trusted, problems) if is_trusted is not None else []
    for path in (get_config_dir() / OWN_FILE, Path.home() / ".cursor" / OWN_FILE):
        if (data := _read_user_file(path)) is not None:
            files.append(_ConfigFile(_show(path), data))
    for name in USER_FILES:
        if (data := _read_user_file(Path.home() / name)) is not None:
            files.append(_ConfigFile(f"~/{name}", data))
    for file in files:
        try:
            yield _parse_file(file)
        except ConfigError as problem:
            problems.append(ServerProblem("", file.source, problem.format_with_hint()))
    if claude is not None:
        entries = _decode_object(claude).get("mcpServers")
        yield parse_entries(entries if isinstance(entries, dict) else {}, "~/.claude.json", is_project=False)
    yield from _iterate_plugin_entries(workspace, is_trusted)


def is_foreign(source: str) -> bool:
    """True for a file of Codex or opencode, of which servers are only one part."""
    return source in FOREIGN_FILES or source in {f"~/{name}" for name in USER_FILES}


def _parse_file(file: _ConfigFile) -> Parsed:
    if not is_foreign(file.source):
        return parse_servers(file.data, file.source, is_project=file.is_project)
    entries, _ = read_foreign_entries(file.source, file.data)
    servers, problems = parse_entries(entries, file.source, is_project=file.is_project)
    followed = [server for server in servers if not list_file_references(entries[server.name])]
    unread = [ServerProblem(server.name, file.source, NO_FILES) for server in servers if server not in followed]
    return tuple(replace(server, is_offered=True) for server in followed), (*problems, *unread)


def _iterate_plugin_entries(workspace: Workspace, is_trusted: TrustCheck | None) -> Iterator[Parsed]:
    """Iterate over the servers of plug-ins, named by the plug-in and the server."""
    for plugin in find_extension_folders(workspace, is_trusted).plugins.plugins:
        wrong = [problem for problem in plugin.problems if ".mcp.json" in problem or "mcpServers" in problem]
        yield (), tuple(ServerProblem(plugin.name, plugin.path, problem) for problem in wrong)
        for source in plugin.sources:
            if source.kind == "mcp":
                yield _parse_plugin_source(source, str(workspace.root / Path(source.directory).expanduser()))


def _parse_plugin_source(source: PluginSource, folder: str) -> Parsed:
    """Parse the entries of a file, with or without an enclosing "mcpServers"."""
    try:
        document = decode_json(_PLUGIN_ROOT.sub(lambda _: json.dumps(folder)[1:-1], source.data.decode("utf-8")))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        return (), (ServerProblem("", source.path, f"it is not valid JSON: {problem}"),)
    entries = document.get("mcpServers", document) if isinstance(document, dict) else None
    if not isinstance(entries, dict):
        return (), (ServerProblem("", source.path, 'it has no object "mcpServers"'),)
    prefix = f"plugin_{source.plugin.replace('.', '_')}_"
    prefixed_entries = {f"{prefix}{name}": entry for name, entry in entries.items()}
    servers, problems = parse_entries(prefixed_entries, source.path, is_project=source.scope == "project")
    return tuple(replace(server, folder=folder) for server in servers), problems


def _read_project_files(
    workspace: Workspace, is_trusted: TrustCheck, problems: list[ServerProblem]
) -> list[_ConfigFile]:
    files = []
    for path in PROJECT_FILES:
        data = read_project_file(workspace, path)
        if data is not None and is_trusted(path, data):
            files.append(_ConfigFile(path, data, is_project=True))
        elif data is not None:
            problems.append(ServerProblem("", path, _UNTRUSTED))
    return files


def read_project_file(workspace: Workspace, path: str) -> bytes | None:
    """Read a project file that names servers; None: it is missing or unreadable."""
    try:
        return workspace.read_bytes(path, MAX_READ_BYTES + 1)
    except AgentTuiError:
        return None


def check_project_files(workspace: Workspace, is_trusted: TrustCheck) -> None:
    """Pass every project file that names servers to a trust check."""
    for path in PROJECT_FILES:
        if (data := read_project_file(workspace, path)) is not None:
            is_trusted(path, data)


def _read_user_file(path: Path) -> bytes | None:
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            return file.read(MAX_BYTES)
    except OSError:
        return None


def _parse_local_scope(data: bytes, root: Path) -> Parsed:
    projects = _decode_object(data).get("projects")
    project = projects.get(str(root)) if isinstance(projects, dict) else None
    entries = project.get("mcpServers") if isinstance(project, dict) else None
    return parse_entries(entries if isinstance(entries, dict) else {}, "~/.claude.json", is_project=False)


def _decode_object(data: bytes) -> dict[str, Any]:
    """Decode a file of another program, of which only a part is of interest; an invalid one counts as empty."""
    try:
        document = decode_json(data)
    except (msgspec.MsgspecError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _show(path: Path) -> str:
    home = f"{Path.home()}/"
    return f"~/{str(path).removeprefix(home)}" if str(path).startswith(home) else str(path)


def add_entry(text: str, name: str, entry: Mapping[str, Any]) -> str:
    """Return the text of a file ("" = a new one) with one more entry. Raises `ConfigError`: the file is invalid, the
    entry is invalid, or the name exists."""
    _, problems = parse_entries({name: entry}, "the entry", is_project=False)
    if problems:
        raise ConfigError(f"{name[:64]} is not a valid server: {problems[0].reason}.")
    if not text.strip():
        return f"{json.dumps({SERVERS_KEY: {name: entry}}, indent=2, ensure_ascii=False)}\n"
    top, servers = _scan(text)
    if servers is None:
        return _insert(text, top, SERVERS_KEY, {name: entry})
    if name in scan_members(text, servers.start):
        raise ConfigError(f"there is already a server {name!r}.", hint=f"agent-tui mcp remove {name} removes it.")
    return _insert(text, servers, name, entry)


def remove_entry(text: str, name: str) -> str:
    """Return the text of a file without an entry. Raises `ConfigError`: the file is invalid or has no such entry."""
    servers = _scan(text)[1] if text.strip() else None
    members = list(scan_members(text, servers.start).values()) if servers is not None else []
    index = next((number for number, member in enumerate(members) if member.key == name), None)
    if index is None or servers is None:
        raise ConfigError(
            f"it has no server {name!r}.", hint="agent-tui mcp list shows where they are defined: --scope."
        )
    if len(members) == 1:
        start, end = servers.start + 1, servers.end - 1
    elif index + 1 < len(members):
        start, end = members[index].key_start, members[index + 1].key_start
    else:
        start, end = members[index - 1].end, members[index].end
    return text[:start] + text[end:]


def _scan(text: str) -> tuple[Value, Value | None]:
    """Return the top object of a file and its object of servers, None if it has none. Raises `ConfigError`."""
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
        raise ConfigError(f"it is not valid JSON: {problem}, line {line}.", hint="Fix it first.") from None
    return top, servers


def _insert(text: str, target: Value, key: str, value: Any) -> str:
    """Return the text with one more member at the end of an object, indented like the others."""
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
    """Return the white space at the start of an offset's line; None: other text precedes the offset."""
    before = text[text.rfind("\n", 0, offset) + 1 : offset]
    return before if not before.strip(" \t") else None


def _find_unit(text: str) -> str:
    """Return the white space of one level: that of the first indented line."""
    match = re.search(r"^[ \t]+(?=\S)", text, re.MULTILINE)
    return match[0] if match else _INDENT


def change_file(path: Path, name: str, entry: Mapping[str, Any] | None, *, is_shared: bool) -> None:
    """Add an entry to a file, or remove the one of that name (`entry` None). Raises `ConfigError`, `StateError`.

    `is_shared`: the file belongs to a project; a link there is refused.
    """
    if not NAME.fullmatch(name):
        raise ConfigError(
            f"{name[:64]!r} can't be the name of a server.", hint="Use 1 to 64 letters, digits, _ . or -."
        )
    if is_shared and (path.is_symlink() or path.parent.is_symlink()):
        raise ConfigError(f"{path} is a link.", hint="Change the file it points to yourself.")
    target = path.resolve()
    try:
        with target.open(encoding="utf-8", newline="") as file:
            before = file.read(MAX_BYTES)
        mode = stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        before, mode = "", _SHARED_MODE if is_shared else 0o600
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
