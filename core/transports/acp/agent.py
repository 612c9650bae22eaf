"""The agent side of ACP: the methods that a client calls. It has an engine for every working directory.

An MCP server that a client brings runs like the user's own: in the box, or after a question before every call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from core import __version__
from core.acp import agent_methods as a
from core.acp.agent_methods import ListedSession, ListSessionsResponse
from core.acp.client_methods import ConfigOptionUpdate
from core.acp.connection import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    NOT_FOUND,
    AcpError,
    Connection,
)
from core.acp.content import McpServerHttp, McpServerSse, McpServerStdio
from core.errors import CommandRejected
from core.protocol import commands as cmd
from core.protocol import queries as q
from core.protocol.client import Client
from core.protocol.options import EngineOptions
from core.protocol.queries import SessionInfo
from core.protocol.review import ReviewPolicy
from core.records import convert
from core.sessions.listing import list_sessions, list_workspaces
from core.sessions.store import SessionStore
from core.transports.acp.logins import build_refusal, check_login, forget_keys, list_methods
from core.transports.acp.printing import format_time
from core.transports.acp.prompting import run_prompt
from core.transports.acp.session import ClientTerms, FollowedSession
from core.transports.acp.session_options import build_change
from core.transports.engine_host import find_own_engine
from core.transports.engines import Engines
from core.transports.session_client import require_ack

PAGE: Final = 50
MAX_LISTED: Final = 1_000  # sessions per workspace
SOURCE: Final = "your editor"
_REMOTE: Final = frozenset({"http", "sse"})
P = TypeVar("P", bound=Struct)


class AgentTerms(Struct, frozen=True, kw_only=True):
    """The user's choices for all clients. `seconds`: how long a client may take to answer a request."""

    options: EngineOptions
    seconds: float
    review: ReviewPolicy
    can_accept: bool


class AcpAgent:
    """The agent of one client. `peer` must be set before the first message; `drain` waits while the client does not
    read."""

    peer: Connection

    def __init__(self, engines: Engines, terms: AgentTerms, drain: Callable[[], Awaitable[None]]) -> None:
        self._engines, self._terms, self._drain = engines, terms, drain
        self._capabilities = a.ClientCapabilities()
        self._is_initialized = False
        self._sessions: dict[str, FollowedSession] = {}
        self._holds: dict[str, ExitStack] = {}  # followed sessions are not closed when idle
        self._methods: Mapping[str, tuple[type[Struct], Callable[[Any], Awaitable[Any]]]] = {
            "initialize": (a.InitializeRequest, self._initialize),
            "authenticate": (a.AuthenticateRequest, self._authenticate),
            "logout": (a.ListSessionsRequest, self._log_out),
            "session/new": (a.NewSessionRequest, self._open),
            "session/load": (a.LoadSessionRequest, self._load),
            "session/resume": (a.ResumeSessionRequest, self._resume),
            "session/list": (a.ListSessionsRequest, self._list),
            "session/close": (a.CloseSessionRequest, self._close),
            "session/delete": (a.DeleteSessionRequest, self._delete),
            "session/set_mode": (a.SetSessionModeRequest, self._set_mode),
            "session/set_config_option": (a.SetSessionConfigOptionRequest, self._set_option),
            "session/prompt": (a.PromptRequest, self._prompt),
        }

    async def answer(self, method: str, params: Mapping[str, Any]) -> Any:
        """Answer a request. Raises `AcpError`, `AgentTuiError`."""
        if (entry := self._methods.get(method)) is None:
            raise AcpError(f"there is no method {method!r}", number=METHOD_NOT_FOUND)
        if not self._is_initialized and method != "initialize":
            raise AcpError("initialize has to be first", number=INVALID_REQUEST)
        kind, handle = entry
        return await handle(_convert(params, kind))

    def notice(self, method: str, params: Mapping[str, Any]) -> None:
        """Handle a notification; an unknown one is ignored."""
        if method == "session/cancel" and (session := self._sessions.get(str(params.get("sessionId")))) is not None:
            session.cancel()

    async def close(self) -> None:
        """End all sessions and engines: the client is gone."""
        for session in self._sessions.values():
            await session.close()
        await self._engines.close()

    async def _initialize(self, request: a.InitializeRequest) -> a.InitializeResponse:
        self._capabilities, self._is_initialized = request.client_capabilities, True
        return a.InitializeResponse(
            protocol_version=a.PROTOCOL_VERSION,
            agent_capabilities=a.AgentCapabilities(
                load_session=True,
                prompt_capabilities=a.PromptCapabilities(image=True, embedded_context=True),
                mcp_capabilities=a.McpCapabilities(http=True, sse=True),
                session_capabilities=a.SessionCapabilities(list={}, delete={}, resume={}, close={}),
                auth=a.AgentAuthCapabilities(logout={}),
            ),
            auth_methods=list_methods(has_terminal=request.client_capabilities.auth.terminal),
            agent_info=a.Implementation(name="agent-tui", title="agent-tui", version=__version__),
        )

    async def _authenticate(self, request: a.AuthenticateRequest) -> dict[str, Any]:
        if not self._sessions:
            await self._engines.close()  # a new engine reads the changed configuration
        if self._terms.options.model is None:
            await check_login(request.method_id)
        return {}

    async def _log_out(self, _: Struct) -> dict[str, Any]:
        await forget_keys()
        return {}

    async def _check_model(self, client: Client) -> None:
        """Raise `AcpError` (auth_required) if no model is set up."""
        if self._terms.options.model is not None:
            return
        answer = await client.query(q.ModelsQuery(discover=False))
        if isinstance(answer, q.ModelsAnswer) and not answer.default:
            raise build_refusal(answer.reason)

    async def _open(self, request: a.NewSessionRequest) -> a.NewSessionResponse:
        directory, servers = check_directory(request.cwd), parse_client_servers(request.mcp_servers)
        await self._check_model(self._engines.get(directory))
        options = self._terms.options
        command = cmd.SessionOpen(mode=options.mode or "agent", effort=options.effort or "")
        client, ack = await self._engines.open(directory, command)
        _set_servers(client, ack.session, servers)
        session = await self._follow(client, ack, replay=False)
        response = session.describe()
        return a.NewSessionResponse(session_id=session.id, modes=response.modes, config_options=response.config_options)

    async def _load(self, request: a.LoadSessionRequest) -> a.LoadSessionResponse:
        return await self._resume_session(request.session_id, request.mcp_servers, replay=True)

    async def _resume(self, request: a.ResumeSessionRequest) -> a.LoadSessionResponse:
        return await self._resume_session(request.session_id, request.mcp_servers, replay=False)

    async def _resume_session(
        self, name: str, server_entries: tuple[dict[str, Any], ...], *, replay: bool
    ) -> a.LoadSessionResponse:
        servers = parse_client_servers(server_entries)
        client = await self._find_client(name)
        _set_servers(client, name, servers)
        ack = require_ack(await client.submit(cmd.SessionResume(session=name)))
        return (await self._follow(client, ack, replay=replay)).describe()

    async def _find_client(self, name: str) -> Client:
        try:
            return await self._engines.find(name)
        except CommandRejected as problem:
            number = NOT_FOUND if problem.code == "session_unknown" else INVALID_PARAMS
            raise AcpError(problem.format_with_hint(), number=number) from None

    async def _follow(self, client: Client, ack: cmd.Ack, *, replay: bool) -> FollowedSession:
        if (before := self._sessions.pop(ack.session, None)) is not None:
            await before.close()
        terms = ClientTerms(
            peer=self.peer,
            capabilities=self._capabilities,
            seconds=self._terms.seconds,
            review=self._terms.review if before is None else before.review,
            can_accept=self._terms.can_accept,
            drain=self._drain,
        )
        session = self._sessions[ack.session] = FollowedSession(client, ack.session, terms)
        if session.id not in self._holds:
            self._holds[session.id] = ExitStack()
            self._holds[session.id].enter_context(self._engines.hold(session.id))
        await session.follow(ack.seq, replay=replay)
        session.announce_soon()
        return session

    async def _list(self, request: a.ListSessionsRequest) -> a.ListSessionsResponse:
        return await list_page(Path(request.cwd) if request.cwd else None, request.cursor or "")

    async def _close(self, request: a.CloseSessionRequest) -> dict[str, Any]:
        await self._leave(self._find(request.session_id), discard=False)
        return {}

    async def _delete(self, request: a.DeleteSessionRequest) -> dict[str, Any]:
        if request.session_id not in self._sessions:
            await self._resume_session(request.session_id, (), replay=False)
        await self._leave(self._find(request.session_id), discard=True)
        return {}

    async def _leave(self, session: FollowedSession, *, discard: bool) -> None:
        del self._sessions[session.id]
        self._holds.pop(session.id).close()
        self._engines.forget(session.id)
        await session.leave(discard=discard)

    def _find(self, name: str) -> FollowedSession:
        if (session := self._sessions.get(name)) is None:
            raise AcpError(f"no session {name!r} is open; load it first", number=NOT_FOUND)
        return session

    async def _set_mode(self, request: a.SetSessionModeRequest) -> dict[str, Any]:
        session = self._find(request.session_id)
        await session.submit(build_change(session.id, "mode", request.mode_id))
        await session.save_choices()
        await session.settle()
        return {}

    async def _set_option(self, request: a.SetSessionConfigOptionRequest) -> a.SetSessionConfigOptionResponse:
        session, value = self._find(request.session_id), str(request.value)
        if request.config_id == "review":
            await session.save_choices(value)
            session.notify(ConfigOptionUpdate(config_options=session.list_options()))
        else:
            await session.submit(build_change(session.id, request.config_id, value))
            await session.save_choices()
            await session.settle()
        return a.SetSessionConfigOptionResponse(config_options=session.list_options())

    async def _prompt(self, request: a.PromptRequest) -> a.PromptResponse:
        session = self._find(request.session_id)
        try:
            return a.PromptResponse(stop_reason=await run_prompt(session, request.prompt))
        finally:
            if session.state.current_turn is not None:
                session.cancel()  # the request was cancelled, so the turn is, too


def _convert(params: Mapping[str, Any], kind: type[P]) -> P:
    try:
        return convert(params, kind)
    except msgspec.ValidationError as problem:
        raise AcpError(f"invalid params: {problem}", number=INVALID_PARAMS) from None


def check_directory(cwd: str) -> Path:
    """Return the directory of a session. Raises `AcpError` if it is not absolute or does not exist."""
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
    """Parse MCP servers by name, in the format of a configuration file. Raises `AcpError` for an invalid entry and for
    a duplicate name."""
    servers = dict[str, Any]()
    for server_entry in server_entries:
        name, entry = _parse_server(server_entry)
        if name in servers:
            raise AcpError(f"two MCP servers have the name {name!r}", number=INVALID_PARAMS)
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
    """Make a name valid for tools: editors allow more characters than models do."""
    name = "".join(
        character if character.isascii() and (character.isalnum() or character in "_.-") else "-"
        for character in raw_name
    )[:64]
    if not name.strip("_.-"):
        raise AcpError(f"{raw_name!r} is not a valid name for an MCP server", number=INVALID_PARAMS)
    return name.lstrip("_.-")


def _set_servers(client: Client, session: str, entries: Mapping[str, Any]) -> None:
    """Give a session the MCP servers of its client, from its next prompt on. Raises `AcpError` for an invalid one."""
    if (engine := find_own_engine(client)) is None:
        return  # another program has the session open, with its own servers
    if problems := engine.server_access(session).set_client_servers(entries, SOURCE):
        raise AcpError(f"mcpServers: {'; '.join(problems)}", number=INVALID_PARAMS)


async def list_page(directory: Path | None, cursor: str) -> ListSessionsResponse:
    """Return a page of sessions, most recently written first. `cursor` "" = the first page. Raises `AcpError`."""
    if cursor and not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 10):
        raise AcpError(f"{cursor!r} is not a cursor of this list", number=INVALID_PARAMS)
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
