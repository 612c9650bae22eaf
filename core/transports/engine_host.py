"""An engine that several clients share: a `SharedClient` for every client, and a Unix socket for every open session.

A session stays open as long as a client has it open. After `SessionDetach` it stays open until it has been idle for a
while without a client. No client can close a session that another one has open.

A client never blocks the engine: unread output is buffered up to a limit, and a client that reads nothing is dropped.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from core.clock import monotonic, now_ms, pause
from core.engine import Engine
from core.errors import CommandRejected, StateError
from core.protocol import commands as cmd
from core.protocol.client import Client
from core.protocol.events import ClientsChanged, Envelope
from core.protocol.queries import AnyAnswer, AnyQuery, SettingsAnswer, SettingsQuery
from core.state.session import SessionState
from core.tasks import TaskOwner
from core.transports.line_server import LINE_LIMIT, LineServer
from core.transports.session_sockets import choose_socket_path, is_own_peer, sweep_sockets

MAX_CLIENTS: Final = 32  # connections at one time
_CONNECTIONS_CLOSE_SECONDS: Final = 2.0
IDLE_CHECK_INTERVAL: Final = 15.0  # seconds between two idle checks of detached sessions
SHORTEST_CHECK_INTERVAL: Final = 0.1


class SessionSockets:
    """The sockets of one engine's sessions. `create_client()` makes the client of a connection; `problems`: why a
    session can't be reached, by its id."""

    def __init__(self, create_client: Callable[[], Client]) -> None:
        self.problems: dict[str, str] = {}
        self._create_client = create_client
        self._listening: dict[str, tuple[asyncio.Server, Path]] = {}
        self._connections = TaskOwner()

    async def listen(self, session: str) -> None:
        """Listen for one more session. A session continues even if it can't be reached."""
        if session in self._listening:
            return
        try:
            path = choose_socket_path(session)
            sweep_sockets(path.parent)
            listening = _bind(path)
        except (StateError, OSError) as problem:
            self.problems[session] = f"other programs can't reach this session: {problem}"
            return
        server = await asyncio.start_unix_server(self._serve, sock=listening, limit=LINE_LIMIT)
        self._listening[session] = server, path

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= MAX_CLIENTS or not is_own_peer(writer.get_extra_info("socket")):
            writer.transport.abort()
            return
        client = self._create_client()
        server = LineServer(client, writer, is_patient=False)
        try:
            with suppress(ConnectionError, asyncio.CancelledError), self._connections.include_current_task():
                await server.listen(reader)
        finally:
            await server.close()
            await client.close()

    async def stop(self, session: str) -> None:
        """Stop listening for a session; clients that are connected stay."""
        self.problems.pop(session, None)
        if (listener := self._listening.pop(session, None)) is not None:
            server, path = listener
            server.close()
            with suppress(OSError):
                path.unlink()

    async def close(self) -> None:
        """End every connection. Safe to call twice."""
        for session in list(self._listening):
            await self.stop(session)
        await self._connections.cancel(limit=_CONNECTIONS_CLOSE_SECONDS)


def _bind(path: Path) -> socket.socket:
    """Bind a socket that only this user may open.

    It gets its final name once it listens, so that no sweep takes it for an abandoned one. This process holds the
    session's lock, so an older socket of that name is abandoned.
    """
    draft = path.with_name(f".{path.name}")
    draft.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        before = os.umask(0o177)
        try:
            listening.bind(str(draft))
        finally:
            os.umask(before)
        listening.listen(MAX_CLIENTS)
        draft.replace(path)
    except OSError:
        listening.close()
        raise
    return listening


class EngineHost:
    """Shares an engine among clients. With `listens`, every session that is not private has a socket while it is
    open."""

    def __init__(self, engine: Engine, *, listens: bool = True) -> None:
        self.engine = engine
        self.clients: dict[str, set[SharedClient]] = {}
        self._sockets = SessionSockets(self.create_client) if listens else None
        self._detached: dict[str, float] = {}  # monotonic time of the last activity
        self._idle_seconds = 0.0
        self._tasks = TaskOwner()
        self._is_checking = False
        self._ended = asyncio.Event()

    def create_client(self) -> SharedClient:
        """Return a new client of the engine."""
        return SharedClient(self)

    def count_clients(self, session: str) -> int:
        return len(self.clients.get(session, ()))

    async def add_client(self, session: str, client: SharedClient) -> None:
        """Note that a client has a session open."""
        is_new = session not in self.clients
        clients = self.clients.setdefault(session, set())
        self._detached.pop(session, None)
        self._ended.clear()
        if client not in clients:
            clients.add(client)
            self._announce(session)
        if is_new and self._sockets is not None and not self.engine.state(session).is_private:
            await self._sockets.listen(session)

    def _announce(self, session: str) -> None:
        with suppress(CommandRejected):
            self.engine.announce(session, ClientsChanged(count=self.count_clients(session)))

    async def remove_client(self, session: str, client: SharedClient) -> None:
        """Note that a client has left a session; close it unless another client or a detach keeps it open."""
        clients = self.clients.get(session, set())
        clients.discard(client)
        if clients or session in self._detached:
            self._announce(session)
        elif session in self.clients:
            await self.engine.submit(cmd.SessionClose(session=session))
            await self.forget(session)

    async def forget(self, session: str) -> None:
        """Note that a session was closed."""
        self.clients.pop(session, None)
        self._detached.pop(session, None)
        if self._sockets is not None:
            await self._sockets.stop(session)
        if not self.clients:
            self._ended.set()

    async def detach(self, session: str, client: SharedClient, *, by_hangup: bool) -> cmd.Ack:
        """Let a session continue without this client. Raises `CommandRejected` if nobody could come back to it."""
        if client not in self.clients.get(session, ()):
            raise CommandRejected(f"no session {session!r} is open here.", code="session_unknown")
        state, sockets = self.engine.state(session), self._sockets
        if state.is_private or sockets is None:
            raise CommandRejected("a private session ends with its screen.", code="private")
        if problem := sockets.problems.get(session):
            raise CommandRejected(problem, code="socket_impossible")
        answer = await self.engine.query(SettingsQuery(session=session))
        settings = answer if isinstance(answer, SettingsAnswer) else SettingsAnswer()
        self._idle_seconds = settings.idle_minutes * 60.0
        if by_hangup and not (_survives_hangup(settings) and is_at_work(state)):
            raise CommandRejected("nothing is running that could continue without a terminal.", code="detach_refused")
        self._detached[session] = monotonic()
        if not self._is_checking:
            self._is_checking = True
            self._tasks.spawn(self._close_idle(), name="idle sessions")
        await self.remove_client(session, client)
        return cmd.Ack(session=session, seq=state.seq)

    async def _close_idle(self) -> None:
        """Close detached sessions that have no client and were idle for long enough."""
        while self._detached:
            await pause(min(IDLE_CHECK_INTERVAL, max(self._idle_seconds / 4, SHORTEST_CHECK_INTERVAL)))
            for session, last_activity in list(self._detached.items()):
                if self.count_clients(session) or self._is_busy(session):
                    self._detached[session] = monotonic()
                elif monotonic() - last_activity >= self._idle_seconds:
                    self._detached.pop(session)
                    await self.engine.submit(cmd.SessionClose(session=session))
                    await self.forget(session)
        self._is_checking = False

    def _is_busy(self, session: str) -> bool:
        with suppress(CommandRejected):
            return is_at_work(self.engine.state(session))
        return False

    def outlives(self, client: SharedClient) -> bool:
        """Return True if a session stays open when this client is gone."""
        return any(session in self._detached or clients - {client} for session, clients in self.clients.items())

    async def wait_ended(self) -> None:
        """Wait until no session is open."""
        if self.clients:
            await self._ended.wait()

    async def close(self) -> None:
        """Close every session, and then the connections. Safe to call twice."""
        await self._tasks.cancel()
        await self.engine.close()
        if self._sockets is not None:
            await self._sockets.close()


def is_at_work(state: SessionState) -> bool:
    """Return True if a turn or a command runs, or waits for an answer."""
    return state.current_turn is not None or bool(state.jobs or state.approvals)


def _survives_hangup(settings: SettingsAnswer) -> bool:
    policy = settings.detach_on_hangup
    return policy == "always" or (policy == "ssh" and bool(os.environ.get("SSH_CONNECTION")))


class SharedClient:
    """One of several clients of an engine."""

    def __init__(self, host: EngineHost) -> None:
        self._host = host
        self._left_sessions: set[str] = set()

    @property
    def engine(self) -> Engine:
        """The engine that this client shares."""
        return self._host.engine

    async def submit(self, command: cmd.AnyCommand) -> cmd.Reply:
        """Send a command. The host handles those that open, close or detach a session."""
        host = self._host
        match command:
            case cmd.SessionDetach():
                return await self._detach(command)
            case cmd.SessionClose() if host.count_clients(command.session) > 1:
                return await self._leave_session(command)
        reply = await host.engine.submit(command)
        if isinstance(reply, cmd.Reject):
            return reply
        match command:
            case cmd.SessionOpen() | cmd.SessionResume() | cmd.SessionFork():
                self._left_sessions.discard(reply.session)
                await host.add_client(reply.session, self)
            case cmd.SessionClose():
                await host.forget(command.session)
        return reply

    async def _detach(self, command: cmd.SessionDetach) -> cmd.Reply:
        self._left_sessions.add(command.session)
        try:
            return await self._host.detach(command.session, self, by_hangup=command.by_hangup)
        except CommandRejected as refused:
            self._left_sessions.discard(command.session)
            return cmd.Reject(code=refused.code, message=refused.message, hint=refused.hint)

    async def _leave_session(self, command: cmd.SessionClose) -> cmd.Reply:
        session = command.session
        if command.discard:
            message = "another client has this session open, so it is not discarded."
            return cmd.Reject(code="session_shared", message=message)
        seq = self._host.engine.state(session).seq
        self._left_sessions.add(session)
        await self._host.remove_client(session, self)
        return cmd.Ack(session=session, seq=seq)

    async def query(self, query: AnyQuery) -> AnyAnswer:
        return await self._host.engine.query(query)

    async def events(self, session: str, *, after: int = 0, brief: bool = False) -> AsyncGenerator[Envelope]:
        """Yield the number of clients if it is more than one, then events, until the session is closed or this client
        leaves it."""
        last_count = 1
        if (count := self._host.count_clients(session)) > last_count:
            last_count = count
            yield Envelope(seq=after, session=session, at=now_ms(), event=ClientsChanged(count=count))
        async for envelope in self._host.engine.events(session, after=after, brief=brief):
            if session in self._left_sessions:
                return
            if isinstance(envelope.event, ClientsChanged):
                if envelope.event.count == last_count:
                    continue
                last_count = envelope.event.count
            yield envelope

    async def close(self) -> None:
        """Leave every session. Safe to call twice."""
        for session, clients in list(self._host.clients.items()):
            if self in clients:
                await self._host.remove_client(session, self)


class _OwnerClient(SharedClient):
    """The client of the program that owns the engine; closing it closes the engine."""

    async def close(self) -> None:
        await self._host.close()


def find_own_engine(client: Client) -> Engine | None:
    """Return the engine of this process that a client shares; None: it is in another process."""
    return client.engine if isinstance(client, SharedClient) else None


def share_engine(engine: Engine) -> Client:
    """Return the owner's client of an engine, to whose sessions others can attach from now on. Closing it closes the
    engine."""
    return _OwnerClient(EngineHost(engine))
