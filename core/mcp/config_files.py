"""The files that name MCP servers: the project's before the user's own, those of plug-ins last. Of one name the first
entry counts whole.

Nothing of a project is read that its user does not trust; a server of a project needs a yes of its own besides
(`consent`). The files are read from the disk: what the agent proposes there counts once it was accepted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from core.config.rules.cleaning import MAX_READ_BYTES
from core.errors import AgentTuiError, ConfigError
from core.extensions.plugins import PluginSource, find_extension_places
from core.mcp.server_config import ServerConfig, ServerProblem, parse_entries, parse_servers
from core.permissions.trusted_files import TrustCheck
from core.records import decode_json
from core.user_dirs import get_config_dir
from core.workspace import Workspace

PROJECT_FILES: Final = (".mcp.json", ".cursor/mcp.json")
OWN_FILE: Final = "mcp.json"
_PLUGIN_ROOT: Final = re.compile(r"\$\{(?:CLAUDE|CURSOR)_PLUGIN_ROOT\}")
MAX_BYTES: Final = 8 << 20
_UNTRUSTED: Final = "it is not as it was when you trusted this project"


class ConfiguredServers(Struct, frozen=True):
    """The servers by name, the strongest entry of each, and what makes none."""

    servers: tuple[ServerConfig, ...] = ()
    problems: tuple[ServerProblem, ...] = ()


class _ConfigFile(Struct, frozen=True):
    source: str
    data: bytes
    is_project: bool = False


def load_servers(
    workspace: Workspace, is_trusted: TrustCheck | None, extra_configs: tuple[ServerConfig, ...] = ()
) -> ConfiguredServers:
    """Load all that is configured. `is_trusted` None: nothing of the project is read. `extra_configs`: those that stand
    in no file, and count before all others."""
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
    for file in files:
        try:
            yield parse_servers(file.data, file.source, is_project=file.is_project)
        except ConfigError as problem:
            problems.append(ServerProblem("", file.source, problem.format_with_hint()))
    if claude is not None:
        entries = _decode_object(claude).get("mcpServers")
        yield parse_entries(entries if isinstance(entries, dict) else {}, "~/.claude.json", is_project=False)
    yield from _iterate_plugin_entries(workspace, is_trusted)


def _iterate_plugin_entries(workspace: Workspace, is_trusted: TrustCheck | None) -> Iterator[Parsed]:
    """Iterate over the servers of plug-ins, each under the plug-in's name and its own."""
    for plugin in find_extension_places(workspace, is_trusted).plugins.plugins:
        wrong = [problem for problem in plugin.problems if ".mcp.json" in problem or "mcpServers" in problem]
        yield (), tuple(ServerProblem(plugin.name, plugin.path, problem) for problem in wrong)
        for source in plugin.sources:
            if source.kind == "mcp":
                yield _parse_plugin_source(source, str(workspace.root / Path(source.directory).expanduser()))


def _parse_plugin_source(source: PluginSource, folder: str) -> Parsed:
    """Parse the entries of a file, with "mcpServers" around them or without."""
    try:
        document = decode_json(_PLUGIN_ROOT.sub(lambda _: json.dumps(folder)[1:-1], source.data.decode("utf-8")))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        return (), (ServerProblem("", source.path, f"it is no valid JSON: {problem}"),)
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
    """Read a file of the project that names servers; None = there is none that can be read."""
    try:
        return workspace.read_bytes(path, MAX_READ_BYTES + 1)
    except AgentTuiError:
        return None


def show_project_files(workspace: Workspace, is_trusted: TrustCheck) -> None:
    """Show the project's files that name servers to a check."""
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
    """Decode another program's own file, of which a part is read; what is none of it holds nothing for us."""
    try:
        document = decode_json(data)
    except (msgspec.MsgspecError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _show(path: Path) -> str:
    home = f"{Path.home()}/"
    return f"~/{str(path).removeprefix(home)}" if str(path).startswith(home) else str(path)
