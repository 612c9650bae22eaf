"""The Python of a session: in a box like any background command, or in the project itself where there is no box.

What is looked at only (Ask and Plan) and what is kept never meet: each has a Python of its own, and the one whose
effects are kept ends before another begins.
"""

from __future__ import annotations

from collections.abc import Callable

from core.agent.execution import Order
from core.agent.terminal import Terminal
from core.errors import ToolFailed
from core.protocol.review import Origin
from core.sandbox.box import Running
from core.sandbox.python_session import PythonSession
from core.sandbox.result import CommandResult
from core.sandbox.unboxed import Unboxed

_FIRST_LOOK = 0.0


class PythonRoom:
    """At most one Python at a time."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._session: PythonSession | None = None
        self._kept: bool | None = None
        self._origin = Origin()
        terminal.at_end.append(self.close)

    async def run(
        self, code: str, *, origin: Origin, time_limit: float, on_output: Callable[[str], None]
    ) -> CommandResult:
        """See `PythonSession.run`. The gate has let this very block through."""
        keeps = self._terminal.keeps()
        if self._session is None or self._kept is not keeps:
            await self.close()
            self._session, self._kept = PythonSession(self._start), keeps
        self._origin = origin
        return await self._session.run(code, time_limit=time_limit, on_output=on_output)

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _start(self, command: str, on_output: Callable[[str], None]) -> Running:
        terminal = self._terminal
        if not await terminal.find():
            if not terminal.keeps():
                raise ToolFailed("Nothing on this machine can hold what Python does, so none runs in this mode.")
            return await Unboxed.start(
                command,
                cwd=terminal.ground.workspace.root / terminal.shell.directory,
                env=terminal.shell.environment(terminal.ground.environment()),
                on_output=on_output,
            )
        order = Order(command=command, origin=self._origin, keeps=terminal.keeps(), seconds=None)
        started = await terminal.start(order, on_output, wait=_FIRST_LOOK)
        running = terminal.job(started.job).execution.running if started.job else None
        if running is None:
            raise ToolFailed(f"Python could not be started: {started.output.strip()[:500] or 'it ended at once'}.")
        return running
