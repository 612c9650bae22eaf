"""The Python REPL of a session: boxed like any background command, or in the project where there is no box.

What is looked at only (Ask and Plan) and what is kept never meet: each has a Python of its own, and the one whose
effects are kept ends before another begins.
"""

from __future__ import annotations

from collections.abc import Callable

from core.errors import ToolFailed
from core.protocol.review import Origin
from core.sandbox.box import RunningCommand
from core.sandbox.python_interpreter import PythonInterpreter
from core.sandbox.results import CommandResult
from core.sandbox.unboxed_run import UnboxedProcess
from core.shell.command_host import CommandRequest
from core.shell.terminal import Terminal


class PythonRepl:
    """The Python REPL of a session; at most one process at a time."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self._session: PythonInterpreter | None = None
        self._keeps_effects: bool | None = None
        self._origin = Origin()
        terminal.on_close.append(self.close)

    async def run(
        self, code: str, *, origin: Origin, time_limit: float, on_output: Callable[[str], None]
    ) -> CommandResult:
        """Run a block that the gate has let through; see `PythonInterpreter.run`."""
        keeps_effects = self.terminal.keeps_effects()
        if self._session is None or self._keeps_effects is not keeps_effects:
            await self.close()
            self._session, self._keeps_effects = PythonInterpreter(self._start), keeps_effects
        self._origin = origin
        return await self._session.run(code, time_limit=time_limit, on_output=on_output)

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _start(self, command: str, on_output: Callable[[str], None]) -> RunningCommand:
        terminal = self.terminal
        if not await terminal.find_box():
            if not terminal.keeps_effects():
                raise ToolFailed("Nothing on this machine can hold what Python does, so none runs in this mode.")
            process = UnboxedProcess(on_output)
            env = terminal.shell.build_environment(terminal.host.build_environment())
            await process.start(command, terminal.host.workspace.root / terminal.shell.directory, env)
            return process
        order = CommandRequest(
            command=command, origin=self._origin, keeps_effects=terminal.keeps_effects(), time_limit=None
        )
        result = await terminal.start_job(order, on_output, wait=0.0)
        if not result.job:
            raise ToolFailed(f"Python could not be started: {result.output.strip()[:500] or 'it ended at once'}.")
        return terminal.jobs.get_job(result.job).running
