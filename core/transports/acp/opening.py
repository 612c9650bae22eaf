"""The directory of a session, the sessions to go on with there or anywhere, and the MCP servers that a client brings.

Such a server runs like the user's own: in the box, or asked about before each call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from core.acp.agent_methods import ListedSession, ListSessionsResponse
from core.acp.connection import INVALID_PARAMS, AcpError
from core.acp.content import McpServerHttp, McpServerSse, McpServerStdio
from core.protocol.client import Client
from core.protocol.queries import SessionInfo
from core.records import convert
from core.sessions.listing import list_sessions, list_workspaces
from core.sessions.store import SessionStore
from core.transports.acp.printing import format_time
from core.transports.attach.engine_host import find_own_engine

PAGE: Final = 50
MAX_LISTED: Final = 1_000  # sessions of a workspace
SOURCE: Final = "your editor"
_REMOTE: Final = frozenset({"http", "sse"})


def check_directory(cwd: str) -> Path:
    """Return the directory of a session. Raises `AcpError` if it is none, or not absolute."""
    path = Path(cwd)
    if not path.is_absolute():
        raise AcpError(f"cwd has to be absolute, not {cwd!r}", number=INVALID_PARAMS)
    try:
        is_directory = path.is_dir()
    except (OSError, ValueError):
        is_directory = False
    if not is_directory:
        raise AcpError(f"cwd: there is no directory {cwd!r}", number=INVALID_PARAMS)
    return path


def parse_client_servers(server_entries: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    """Return `mcpServers` by name, as a configuration file has them. Raises `AcpError`: an entry is no server, or two
    have one name."""
    servers = dict[str, Any]()
    for server_entry in server_entries:
        name, entry = _parse_server(server_entry)
        if name in servers:
            raise AcpError(f"two MCP servers are called {name!r}", number=INVALID_PARAMS)
        servers[name] = entry
    return servers


def _parse_server(server_entry: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    kind = server_entry.get("type", "stdio")
    try:
        if kind == "stdio":
            local = convert(server_entry, McpServerStdio)
            env = {env_variable.name: env_variable.value for env_variable in local.env}
            return _clean_name(local.name), {"command": local.command, "args": [*local.args], "env": env}
        if kind in _REMOTE:
            remote: McpServerHttp | McpServerSse = convert(server_entry, McpServerHttp | McpServerSse)
            headers = {header.name: header.value for header in remote.headers}
            return _clean_name(remote.name), {"type": kind, "url": remote.url, "headers": headers}
    except msgspec.ValidationError as problem:
        raise AcpError(f"mcpServers: {problem}", number=INVALID_PARAMS) from None
    raise AcpError(f"an MCP server can't be reached by {kind!r}; mcpCapabilities says how", number=INVALID_PARAMS)


def _clean_name(raw_name: str) -> str:
    """Return a name that tools can be called by: editors allow more letters than models do."""
    name = "".join(
        character if character.isascii() and (character.isalnum() or character in "_.-") else "-"
        for character in raw_name
    )[:64]
    if not name.strip("_.-"):
        raise AcpError(f"{raw_name!r} can't be the name of an MCP server", number=INVALID_PARAMS)
    return name.lstrip("_.-")


def set_client_servers(client: Client, session: str, entries: Mapping[str, Any]) -> None:
    """Let a session have the servers of its client, from its next prompt on. Raises `AcpError` if one is none."""
    if (engine := find_own_engine(client)) is None:
        return  # another program has the session open, with the servers that it has
    if problems := engine.server_access(session).set_client_servers(entries, SOURCE):
        raise AcpError(f"mcpServers: {'; '.join(problems)}", number=INVALID_PARAMS)


async def list_page(directory: Path | None, cursor: str) -> ListSessionsResponse:
    """Return a page of sessions, the one written last first. `cursor` "" = the first page. Raises `AcpError`."""
    if cursor and not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 10):
        raise AcpError(f"{cursor!r} is no cursor of this list", number=INVALID_PARAMS)
    sessions = await asyncio.to_thread(_list_all, directory)
    start = int(cursor or 0)
    page = tuple(_build_row(workspace, info) for workspace, info in sessions[start : start + PAGE])
    end = start + PAGE
    return ListSessionsResponse(sessions=page, next_cursor=str(end) if end < len(sessions) else None)


def _list_all(directory: Path | None) -> list[tuple[Path, SessionInfo]]:
    workspaces = [directory] if directory is not None else list_workspaces()
    sessions = [
        (workspace, info)
        for workspace in workspaces
        for info in list_sessions(SessionStore(workspace), limit=MAX_LISTED)
    ]
    return sorted(sessions, key=lambda pair: -pair[1].updated)


def _build_row(workspace: Path, info: SessionInfo) -> ListedSession:
    return ListedSession(
        session_id=info.id, cwd=str(workspace), title=info.title or None, updated_at=format_time(info.updated)
    )
