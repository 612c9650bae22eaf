"""An engine that several clients share: a `Seat` for every client, and a Unix socket for every open session.

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
LOOK_INTERVAL: Final = 15.0  # seconds between two looks at whether a detached session is idle
SHORTEST_LOOK: Final = 0.1


class SessionSockets:
    """Listens for the sessions of one engine; `open_seat()` gives each connection its client. `problems`: why a session
    can't be reached, by its id."""

    def __init__(self, open_seat: Callable[[], Client]) -> None:
        self.problems: dict[str, str] = {}
        self._open_seat = open_seat
        self._listening: dict[str, tuple[asyncio.Server, Path]] = {}
        self._connections: set[asyncio.Task[None]] = set()

    async def listen(self, session: str) -> None:
        """Listen for one more session. One that can't be reached goes on without that."""
        if session in self._listening:
            return
        try:
            path = choose_socket_path(session)
            sweep_sockets(path.parent)
            listening = _bind(path)
        except (StateError, OSError) as problem:
            self.problems[session] = f"this session can't be reached from elsewhere: {problem}"
            return
        server = await asyncio.start_unix_server(self._serve, sock=listening, limit=LINE_LIMIT)
        self._listening[session] = server, path

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection, task = writer.get_extra_info("socket"), asyncio.current_task()
        if task is None or len(self._connections) >= MAX_CLIENTS or not is_own_peer(connection):
            writer.transport.abort()
            return
        self._connections.add(task)
        client = self._open_seat()
        server = LineServer(client, writer, is_patient=False)
        try:
            with suppress(ConnectionError, asyncio.CancelledError):
                await server.listen(reader)
        finally:
            self._connections.discard(task)
            await server.close()
            await client.close()

    async def stop(self, session: str) -> None:
        """Listen no longer for a session; whoever came by its socket stays."""
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
        waiting = set(self._connections)
        for task in waiting:
            task.cancel()
        if waiting:
            await asyncio.wait(waiting, timeout=_CONNECTIONS_CLOSE_SECONDS)


def _bind(path: Path) -> socket.socket:
    """Bind a socket that nobody else may open. It gets its name when it listens: until then nobody may take it for one
    that was left. The session is locked by this process, so one of that name was."""
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
    """Hosts an engine. Each session that is not private can be reached at a socket while it is open (`listens`)."""

    def __init__(self, engine: Engine, *, listens: bool = True) -> None:
        self.engine = engine
        self.clients: dict[str, set[Seat]] = {}
        self._sockets = SessionSockets(self.open_seat) if listens else None
        self._detached: dict[str, float] = {}  # when each was last seen busy
        self._idle_seconds = 0.0
        self._tasks = TaskOwner()
        self._is_looking = False
        self._ended = asyncio.Event()

    def open_seat(self) -> Seat:
        """Return the `Client` of one more client."""
        return Seat(self)

    def count_clients(self, session: str) -> int:
        return len(self.clients.get(session, ()))

    async def take_in(self, session: str, seat: Seat) -> None:
        """Take note that a client has a session open."""
        is_new = session not in self.clients
        seats = self.clients.setdefault(session, set())
        self._detached.pop(session, None)
        self._ended.clear()
        if seat not in seats:
            seats.add(seat)
            self._announce(session)
        if is_new and self._sockets is not None and not self.engine.state(session).is_private:
            await self._sockets.listen(session)

    def _announce(self, session: str) -> None:
        with suppress(CommandRejected):
            self.engine.announce(session, ClientsChanged(count=self.count_clients(session)))

    async def leave(self, session: str, seat: Seat) -> None:
        """Take note that a client has left a session, which is closed unless somebody or something keeps it open."""
        seats = self.clients.get(session, set())
        seats.discard(seat)
        if seats or session in self._detached:
            self._announce(session)
        elif session in self.clients:
            await self.engine.submit(cmd.SessionClose(session=session))
            await self.forget(session)

    async def forget(self, session: str) -> None:
        """Take note that a session was closed."""
        self.clients.pop(session, None)
        self._detached.pop(session, None)
        if self._sockets is not None:
            await self._sockets.stop(session)
        if not self.clients:
            self._ended.set()

    async def detach(self, session: str, seat: Seat, *, by_hangup: bool) -> cmd.Ack:
        """Let a session go on without this client. Raises `CommandRejected` where nobody could come back to it."""
        if seat not in self.clients.get(session, ()):
            raise CommandRejected(f"no session {session!r} is open here.", code="session_unknown")
        state, sockets = self.engine.state(session), self._sockets
        if state.is_private or sockets is None:
            raise CommandRejected("a private session ends with its screen.", code="private")
        if problem := sockets.problems.get(session):
            raise CommandRejected(problem, code="socket_impossible")
        answer = await self.engine.query(SettingsQuery(session=session))
        settings = answer if isinstance(answer, SettingsAnswer) else SettingsAnswer()
        self._idle_seconds = settings.idle_minutes * 60.0
        if by_hangup and not (_goes_on_at_hangup(settings) and is_at_work(state)):
            raise CommandRejected("nothing runs that was to go on without a terminal.", code="detach_refused")
        self._detached[session] = monotonic()
        if not self._is_looking:
            self._is_looking = True
            self._tasks.spawn(self._close_idle(), name="idle sessions")
        await self.leave(session, seat)
        return cmd.Ack(session=session, seq=state.seq)

    async def _close_idle(self) -> None:
        """Close detached sessions that no client has open and nothing has happened in for a while."""
        while self._detached:
            await pause(min(LOOK_INTERVAL, max(self._idle_seconds / 4, SHORTEST_LOOK)))
            for session, last_activity in list(self._detached.items()):
                if self.count_clients(session) or self._is_busy(session):
                    self._detached[session] = monotonic()
                elif monotonic() - last_activity >= self._idle_seconds:
                    self._detached.pop(session)
                    await self.engine.submit(cmd.SessionClose(session=session))
                    await self.forget(session)
        self._is_looking = False

    def _is_busy(self, session: str) -> bool:
        with suppress(CommandRejected):
            return is_at_work(self.engine.state(session))
        return False

    def outlives(self, seat: Seat) -> bool:
        """True if a session stays open when this client is gone."""
        return any(session in self._detached or seats - {seat} for session, seats in self.clients.items())

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
    """True if a turn or a command runs, so also while one of them waits for an answer."""
    return state.current_turn is not None or bool(state.jobs or state.approvals)


def _goes_on_at_hangup(settings: SettingsAnswer) -> bool:
    policy = settings.detach_on_hangup
    return policy == "always" or (policy == "ssh" and bool(os.environ.get("SSH_CONNECTION")))


class Seat:
    """The `Client` of one of several clients of an engine."""

    def __init__(self, host: EngineHost) -> None:
        self._host = host
        self._left: set[str] = set()

    @property
    def engine(self) -> Engine:
        """The engine that it is a seat of."""
        return self._host.engine

    async def submit(self, command: cmd.AnyCommand) -> cmd.Reply:
        """Send a command. Those that are about who has a session open are the host's business."""
        host = self._host
        match command:
            case cmd.SessionDetach():
                return await self._detach(command)
            case cmd.SessionClose() if host.count_clients(command.session) > 1:
                return await self._close_for_itself(command)
        reply = await host.engine.submit(command)
        if isinstance(reply, cmd.Reject):
            return reply
        match command:
            case cmd.SessionOpen() | cmd.SessionResume() | cmd.SessionFork():
                self._left.discard(reply.session)
                await host.take_in(reply.session, self)
            case cmd.SessionClose():
                await host.forget(command.session)
        return reply

    async def _detach(self, command: cmd.SessionDetach) -> cmd.Reply:
        self._left.add(command.session)
        try:
            return await self._host.detach(command.session, self, by_hangup=command.by_hangup)
        except CommandRejected as refused:
            self._left.discard(command.session)
            return cmd.Reject(code=refused.code, message=refused.message, hint=refused.hint)

    async def _close_for_itself(self, command: cmd.SessionClose) -> cmd.Reply:
        session = command.session
        if command.discard:
            message = "another client has this session open, so it is not thrown away."
            return cmd.Reject(code="session_shared", message=message)
        seq = self._host.engine.state(session).seq
        self._left.add(session)
        await self._host.leave(session, self)
        return cmd.Ack(session=session, seq=seq)

    async def query(self, query: AnyQuery) -> AnyAnswer:
        return await self._host.engine.query(query)

    async def events(self, session: str, *, after: int = 0, brief: bool = False) -> AsyncGenerator[Envelope]:
        """Yield events, and first how many clients there are, until the session is closed or this client leaves it."""
        last_count = 1
        if (count := self._host.count_clients(session)) > last_count:
            last_count = count
            yield Envelope(seq=after, session=session, at=now_ms(), event=ClientsChanged(count=count))
        async for envelope in self._host.engine.events(session, after=after, brief=brief):
            if session in self._left:
                return
            if isinstance(envelope.event, ClientsChanged):
                if envelope.event.count == last_count:
                    continue
                last_count = envelope.event.count
            yield envelope

    async def close(self) -> None:
        """Leave every session. Safe to call twice."""
        for session, seats in list(self._host.clients.items()):
            if self in seats:
                await self._host.leave(session, self)


class _OwnerSeat(Seat):
    """The seat of the program that has the engine."""

    async def close(self) -> None:
        await self._host.close()


def find_own_engine(client: Client) -> Engine | None:
    """Return the engine of this process that a client is a seat of; None: it is in another process."""
    return client.engine if isinstance(client, Seat) else None


def share_engine(engine: Engine) -> Client:
    """Return the client of the program that has an engine, to whose sessions others can attach from now on. It closes
    the engine."""
    return _OwnerSeat(EngineHost(engine))
