"""The process of one language server: started in the sandbox on demand, stopped when idle, restarted after a crash.

The server runs over the merged view, and nothing that it writes persists. One that exits, violates the protocol or does
not answer is restarted at most three times; after that it is given up, and the user gets one notice with the reason.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from core.errors import AgentTuiError, ToolFailed
from core.lsp.connection import ServerConnection
from core.lsp.server_table import LocatedServer
from core.sandbox.box import BoxLimits, BoxResult, RunningCommand
from core.sandbox.results import describe_end
from core.shell.command_host import CommandHost, get_memory_limit
from core.tasks import TaskOwner

_MAX_ERROR_TEXT: Final = 2_000
_UNBOUNDED: Final = 1 << 50  # the client detects floods
MAX_STARTS: Final = 4  # the first one, and three after crashes
START_LIMIT: Final = 30.0  # seconds
IDLE_LIMIT: Final = 600.0
StartServer = Callable[[LocatedServer, Callable[[str], None], "ServerErrors"], Awaitable[RunningCommand]]


class SupervisedServer:
    """A server of a session. `lock` serialises the use of its documents. `stamp`: the state of the project at its
    start; `given_up`: the reason why it is not started any more."""

    def __init__(
        self, server: LocatedServer, root: Path, start: StartServer, on_given_up: Callable[[SupervisedServer], None]
    ) -> None:
        self.located = server
        self.lock = asyncio.Lock()
        self.stamp: object = None
        self.given_up = ""
        self._root, self._start, self._on_given_up = root, start, on_given_up
        self._running: RunningCommand | None = None
        self._connection: ServerConnection | None = None
        self._errors = ServerErrors()
        self._crashes = 0
        self._is_stopping = False
        self._idle_timer: asyncio.TimerHandle | None = None
        self._endings = TaskOwner()

    @property
    def name(self) -> str:
        return self.located.spec.name

    @property
    def connection(self) -> ServerConnection | None:
        """The connection; None while the server does not run."""
        connection = self._connection
        return connection if connection is not None and not connection.client.problem else None

    async def ensure_running(self) -> ServerConnection:
        """Return the connection, starting the server if necessary. Raises `ToolFailed`."""
        self._check_crash()
        self._postpone_end()
        if (connection := self.connection) is not None:
            return connection
        while not self.given_up:
            self.stop()
            try:
                return await self._start_process()
            except TimeoutError:
                self.record_crash(f"it did not start within {START_LIMIT:.0f} s")
            except AgentTuiError as problem:
                self.record_crash(problem.message.rstrip("."))
        raise ToolFailed(f"The language server {self.name} is not used: {self.given_up}.")

    async def _start_process(self) -> ServerConnection:
        self._errors, self._is_stopping = ServerErrors(), False
        spec = self.located.spec
        connection = ServerConnection(spec.name, self._root, self._send, spec.settings)

        def on_output(text: str) -> None:
            connection.client.feed(text.encode("utf-8", "surrogateescape"))

        self._running = await self._start(self.located, on_output, self._errors)
        self._connection = connection
        self._endings.spawn(self._watch_end(self._running, connection), name=f"end of {self.name}")
        await connection.initialize(self.located.directory, spec.options, seconds=START_LIMIT)
        return connection

    def _send(self, data: bytes) -> None:
        if self._running is not None:
            self._running.send(data)

    async def _watch_end(self, running: RunningCommand, connection: ServerConnection) -> None:
        result: BoxResult = await running.wait()
        reason = f"it ended ({describe_end(result.exit_code, result.end_reason)})"
        error_text = self._errors.describe()
        connection.client.fail(f"{reason}: {error_text}" if error_text else reason)

    def _check_crash(self) -> None:
        """Record the end of a server that was not stopped."""
        connection = self._connection
        if connection is not None and connection.client.problem and not self._is_stopping:
            self.record_crash(connection.client.problem.rstrip("."))

    def record_crash(self, reason: str) -> None:
        """Stop a server that failed, and count the failure."""
        self._crashes += 1
        self.stop()
        if self._crashes >= MAX_STARTS and not self.given_up:
            self.given_up = reason
            self._on_given_up(self)

    def _postpone_end(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._idle_timer = asyncio.get_running_loop().call_later(IDLE_LIMIT, self._end_idle)

    def _end_idle(self) -> None:
        async def end() -> None:
            async with self.lock:
                self.stop()

        self._idle_timer = None
        self._endings.spawn(end(), name=f"idle {self.name}")

    async def close(self) -> None:
        """Stop the server for good."""
        self.given_up = self.given_up or "the session is closed"
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self.stop()
        await self._endings.wait()

    def stop(self) -> None:
        """Stop the server without waiting for its end; it can be started again at once."""
        self._is_stopping = True
        running, connection = self._running, self._connection
        self._running = self._connection = None
        if connection is not None:
            connection.client.fail("it was ended")
        if running is not None:
            self._endings.spawn(running.stop(), name=f"end of {self.name}")


class ServerErrors:
    """The end of a server's standard error."""

    def __init__(self) -> None:
        self._text = ""

    def add(self, text: str) -> None:
        self._text = (self._text + text)[-_MAX_ERROR_TEXT:]

    def describe(self) -> str:
        """Return its last line; "" = it is empty."""
        lines = [line.strip() for line in self._text.splitlines() if line.strip()]
        return lines[-1][:300] if lines else ""


def format_command(server: LocatedServer) -> str:
    """Return the command line that permission rules match."""
    return shlex.join(server.spec.command)


async def start_in_box(
    host: CommandHost, server: LocatedServer, on_output: Callable[[str], None], errors: ServerErrors
) -> RunningCommand:
    """Start a server in the sandbox. `on_output` gets its bytes decoded with surrogate escapes (PEP 383). Raises
    `ToolFailed`."""
    box = await host.box.find()
    if box is None or not box.tier.can_run_unasked:
        raise ToolFailed("commands can't be sandboxed on this machine, so none runs without asking")
    request = await host.build_passing_request(
        f"exec {shlex.join((server.program, *server.spec.command[1:]))}",
        lowers=host.shadow.prepare_lowers(),
        cwd=server.directory,
        limits=BoxLimits(seconds=None, memory=get_memory_limit() // 2, output=_UNBOUNDED),
        is_piped=True,
    )
    return await box.start(request, on_output, errors.add)
