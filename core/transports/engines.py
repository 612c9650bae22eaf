"""The engines behind a server: one for every workspace that its clients use.

Every server of several projects (`serve`, `acp`, background agents) reaches its sessions through `Engines`. Only the
latest sessions stay open: an idle one is closed, and resumed from its log when it is used again, so that an idle
conversation costs next to nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from core.clock import monotonic
from core.engine import Engine
from core.errors import AgentTuiError, CommandRejected
from core.filesystem.name_spelling import resolve_spelled
from core.protocol import commands as cmd
from core.protocol.client import Client
from core.protocol.options import EngineOptions
from core.search_paths import remove_project_entries
from core.sessions.listing import find_workspace
from core.tasks import TaskOwner
from core.transports.line_client import LineClient
from core.transports.session_client import SessionView, join_session, require_ack

MOST_OPEN: Final = 32
LEAST_IDLE: Final = 5.0  # seconds since the last use, so that no session is closed between two requests


class Engines:
    """The engines of this process, by workspace.

    `make` builds one for a directory (absolute and existing). `most_open`: the number of idle sessions that stay open;
    `least_idle`: the seconds until an idle session can be closed.
    """

    def __init__(
        self,
        options: EngineOptions,
        make: Callable[[Path, EngineOptions], Client] | None = None,
        *,
        most_open: int = MOST_OPEN,
        least_idle: float = LEAST_IDLE,
    ) -> None:
        self._options = options
        self._make = make or (lambda directory, options: Engine(directory, options=options))
        self._most_open, self._least_idle = most_open, least_idle
        self._by_workspace: dict[Path, Client] = {}
        self._by_session: dict[str, Client] = {}  # the most recently used is the last
        self._used: dict[str, float] = {}
        self._held: Counter[str] = Counter()
        self._closing: dict[str, asyncio.Task[None]] = {}
        self._tasks = TaskOwner()
        self._timer: asyncio.TimerHandle | None = None

    def get(self, directory: Path) -> Client:
        """Return the engine of a workspace, which is made at its first use."""
        real = resolve_spelled(directory)
        if (client := self._by_workspace.get(real)) is None:
            remove_project_entries([directory])  # it is not the workspace of the command line
            client = self._by_workspace[real] = self._make(real, self._options)
        return client

    async def open(self, directory: Path, command: cmd.SessionOpen) -> tuple[Client, cmd.Ack]:
        """Open a new session in a workspace. Raises `CommandRejected`."""
        client = self.get(directory)
        ack = require_ack(await client.submit(command))
        self._note_use(ack.session, client)
        return client, ack

    async def find(self, session: str) -> Client:
        """Return the engine that has a session open, in this process or another one; resume a closed session. Raises
        `CommandRejected`."""
        if (closing := self._closing.get(session)) is not None:
            await asyncio.wait({closing})
        if (known := self._by_session.get(session)) is not None:
            if not (isinstance(known, LineClient) and known.is_gone):
                self._note_use(session, known)
                return known
            self.forget(session)
            await known.close()
        if (workspace := find_workspace(session)) is None:
            raise CommandRejected(f"there is no session {session[:100]!r}.", code="session_unknown")
        client: Client | None = await join_session(session)
        if client is None:
            client = self.get(workspace)
            require_ack(await client.submit(cmd.SessionResume(session=session)))
        self._note_use(session, client)
        return client

    def forget(self, session: str) -> None:
        """Note that a command closed a session; its next use resumes it."""
        self._by_session.pop(session, None)
        self._used.pop(session, None)

    @contextmanager
    def hold(self, session: str) -> Iterator[None]:
        """Keep a session open while the block runs."""
        self._held[session] += 1
        try:
            yield
        finally:
            self._held[session] -= 1
            if not self._held[session]:
                del self._held[session]

    def _note_use(self, session: str, client: Client) -> None:
        """Mark a session as the most recently used, and close the oldest ones beyond the limit."""
        self._by_session.pop(session, None)
        self._by_session[session] = client
        self._used[session] = monotonic()
        self._trim()

    def _trim(self) -> None:
        """Close the oldest sessions beyond the limit, now or once they are idle for long enough."""
        over = len(self._by_session) - len(self._closing) - self._most_open
        if over <= 0:
            return
        cutoff = monotonic() - self._least_idle
        old = [session for session in self._by_session if session not in self._held and session not in self._closing]
        for session in old[:over]:
            if self._used[session] <= cutoff:
                self._closing[session] = self._tasks.start(self._close_if_idle(session), name=f"closing {session}")
        if self._timer is None and self._least_idle:
            self._timer = asyncio.get_running_loop().call_later(self._least_idle, self._trim_later)

    def _trim_later(self) -> None:
        self._timer = None
        self._trim()

    async def _close_if_idle(self, session: str) -> None:
        client = self._by_session[session]
        if isinstance(client, LineClient):  # another process has it open
            self.forget(session)
            del self._closing[session]
            await client.close()
            return
        view = SessionView(client, session)
        try:
            await view.settle()
            state = view.state
            if state.current_turn is not None or state.jobs or state.approvals or session in self._held:
                self._by_session[session] = self._by_session.pop(session)  # check the others before it is checked again
                self._used[session] = monotonic()
                return
            await client.submit(cmd.SessionClose(session=session))
            self.forget(session)
            await view.wait_until(lambda: False)
        except AgentTuiError:  # another client has closed it
            self.forget(session)
        finally:
            del self._closing[session]
            await view.close()

    async def wait_closed(self) -> None:
        """Wait until the sessions beyond the limit are closed."""
        while self._closing:
            await self._tasks.wait()

    async def close(self) -> None:
        """Close every engine of this process and the connections to others. `get` and `find` open new ones."""
        if self._timer is not None:
            self._timer.cancel()
        await self.wait_closed()
        elsewhere = [client for client in self._by_session.values() if isinstance(client, LineClient)]
        for client in (*self._by_workspace.values(), *elsewhere):
            await client.close()
        self._by_workspace.clear()
        self._by_session.clear()
