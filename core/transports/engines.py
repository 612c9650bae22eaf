"""The engines behind a server: one for each workspace that its clients work in, and which of them has a session.

Every door that serves more than one project (`serve`, `acp`, background agents) reaches its sessions through this.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from core.engine import Engine
from core.errors import CommandRejected
from core.protocol import commands as cmd
from core.protocol.client import Client, EngineGone
from core.protocol.options import EngineOptions
from core.sessions.listing import find_workspace
from core.transports.attach.socket_client import connect_to_session
from core.transports.line_client import LineClient
from core.transports.session_view import require_ack


class Engines:
    """Engines of this process, by workspace. `make` builds one for a directory (absolute; it must exist)."""

    def __init__(self, options: EngineOptions, make: Callable[[Path, EngineOptions], Client] | None = None) -> None:
        self._options = options
        self._make = make or (lambda directory, options: Engine(directory, options=options))
        self._by_workspace: dict[Path, Client] = {}
        self._by_session: dict[str, Client] = {}

    def get(self, directory: Path) -> Client:
        """Return the engine of a workspace, made at its first use."""
        real = directory.resolve()
        if (found := self._by_workspace.get(real)) is None:
            found = self._by_workspace[real] = self._make(real, self._options)
        return found

    async def open(self, directory: Path, command: cmd.SessionOpen) -> tuple[Client, cmd.Ack]:
        """Open a new session in a workspace. Raises `CommandRejected`."""
        client = self.get(directory)
        opened = require_ack(await client.submit(command))
        self._by_session[opened.session] = client
        return client, opened

    async def find(self, session: str) -> Client:
        """Return the engine that has a session open, be it of another process; a session that is open nowhere is
        resumed. Raises `CommandRejected`."""
        if (found := self._by_session.get(session)) is not None:
            if not (isinstance(found, LineClient) and found.is_gone):
                return found
            del self._by_session[session]
            await found.close()
        if (workspace := find_workspace(session)) is None:
            raise CommandRejected(f"there is no session {session!r}.", code="session_unknown")
        if (client := await self._join(session)) is None:
            client = self.get(workspace)
            require_ack(await client.submit(cmd.SessionResume(session=session)))
        self._by_session[session] = client
        return client

    async def _join(self, session: str) -> Client | None:
        """Return a connection to the engine of another process that has a session open; None: there is none."""
        if (client := await connect_to_session(session)) is None:
            return None
        try:
            require_ack(await client.submit(cmd.SessionResume(session=session)))
        except (CommandRejected, EngineGone):
            await client.close()
            return None
        return client

    async def close(self) -> None:
        """Close every engine of this process, and the connections to others."""
        elsewhere = [each for each in self._by_session.values() if isinstance(each, LineClient)]
        for client in (*self._by_workspace.values(), *elsewhere):
            await client.close()
        self._by_workspace.clear()
        self._by_session.clear()
