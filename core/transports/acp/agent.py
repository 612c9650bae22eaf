"""The agent side of ACP: each method of a client, over engines of this process, one for each working directory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from core import __version__
from core.acp import agent_methods as a
from core.acp.connection import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    NOT_FOUND,
    AcpError,
    Connection,
)
from core.acp.updates import ConfigOptionUpdate
from core.errors import CommandRejected
from core.protocol import commands as cmd
from core.protocol import queries as q
from core.protocol.client import Client
from core.protocol.options import EngineOptions
from core.protocol.review import ReviewPolicy
from core.records import convert
from core.transports.acp.logins import build_refusal, check_login, forget_keys, list_methods
from core.transports.acp.opening import check_directory, list_page, parse_client_servers, set_client_servers
from core.transports.acp.prompting import run_prompt
from core.transports.acp.session import ClientTerms, FollowedSession
from core.transports.acp.session_options import build_change
from core.transports.engines import Engines
from core.transports.session_view import require_ack

P = TypeVar("P", bound=Struct)


class AgentTerms(Struct, frozen=True, kw_only=True):
    """The user's choices for all clients. `seconds`: how long one may take to answer a request."""

    options: EngineOptions
    seconds: float
    review: ReviewPolicy
    can_accept: bool


class AcpAgent:
    """The agent of one client. `peer` has to be set before anything is heard; `drain` waits while it does not read."""

    peer: Connection

    def __init__(self, engines: Engines, terms: AgentTerms, drain: Callable[[], Awaitable[None]]) -> None:
        self._engines, self._terms, self._drain = engines, terms, drain
        self._capabilities = a.ClientCapabilities()
        self._is_initialized = False
        self._sessions: dict[str, FollowedSession] = {}
        self._holds: dict[str, ExitStack] = {}  # what the client follows is not closed for being idle
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
            raise AcpError("initialize has to come first", number=INVALID_REQUEST)
        kind, handle = entry
        return await handle(_convert(params, kind))

    def notice(self, method: str, params: Mapping[str, Any]) -> None:
        """Take a notification; one that is not known says nothing."""
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
            await self._engines.close()  # what was set up meanwhile is read anew
        if self._terms.options.model is None:
            await check_login(request.method_id)
        return {}

    async def _log_out(self, _: Struct) -> dict[str, Any]:
        await forget_keys()
        return {}

    async def _check_model(self, client: Client) -> None:
        """Raise `AcpError` (auth_required) while there is no model to ask."""
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
        set_client_servers(client, ack.session, servers)
        session = await self._follow(client, ack, replay=False)
        response = session.describe()
        return a.NewSessionResponse(session_id=session.id, modes=response.modes, config_options=response.config_options)

    async def _load(self, request: a.LoadSessionRequest) -> a.LoadSessionResponse:
        return await self._go_on(request.session_id, request.mcp_servers, replay=True)

    async def _resume(self, request: a.ResumeSessionRequest) -> a.LoadSessionResponse:
        return await self._go_on(request.session_id, request.mcp_servers, replay=False)

    async def _go_on(
        self, name: str, server_entries: tuple[dict[str, Any], ...], *, replay: bool
    ) -> a.LoadSessionResponse:
        servers = parse_client_servers(server_entries)
        client = await self._find_client(name)
        set_client_servers(client, name, servers)
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
            await self._go_on(request.session_id, (), replay=False)
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
        await session.keep_choices()
        await session.settle()
        return {}

    async def _set_option(self, request: a.SetSessionConfigOptionRequest) -> a.SetSessionConfigOptionResponse:
        session, value = self._find(request.session_id), str(request.value)
        if request.config_id == "review":
            await session.keep_choices(value)
            session.notify(ConfigOptionUpdate(config_options=session.list_options()))
        else:
            await session.submit(build_change(session.id, request.config_id, value))
            await session.keep_choices()
            await session.settle()
        return a.SetSessionConfigOptionResponse(config_options=session.list_options())

    async def _prompt(self, request: a.PromptRequest) -> a.PromptResponse:
        session = self._find(request.session_id)
        try:
            return a.PromptResponse(stop_reason=await run_prompt(session, request.prompt))
        finally:
            if session.state.current_turn is not None:
                session.cancel()  # nobody waits for this turn any more


def _convert(params: Mapping[str, Any], kind: type[P]) -> P:
    try:
        return convert(params, kind)
    except msgspec.ValidationError as problem:
        raise AcpError(f"invalid params: {problem}", number=INVALID_PARAMS) from None
