"""The sockets at which the sessions of an engine are reached: one for each, by which a client gets a seat.

The engine is never held up by a client: what one does not read waits within bounds, and one that reads nothing is
dropped.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from core.errors import StateError
from core.protocol.client import Client
from core.transports.attach.socket_places import choose_socket_path, is_own_peer, sweep_sockets
from core.transports.line_server import LINE_LIMIT, LineServer

MAX_CLIENTS: Final = 32  # connections at one time
CLOSE_LIMIT: Final = 2.0


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
            await asyncio.wait(waiting, timeout=CLOSE_LIMIT)


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
