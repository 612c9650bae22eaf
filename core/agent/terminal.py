"""The terminal of a session: every command goes through it, the agent's and the user's, in the foreground and as a job.

It knows the shadow and the box. A command that the box can't start is an error and nothing else: it is never run
without one. Only where the machine has no box at all (tier T4) commands run in the project itself, each one after a
yes of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from core.agent.execution import DROPPED, Execution, Ground, Order
from core.agent.jobs import Job, Jobs
from core.agent.probe_room import ProbeLayer
from core.agent.shell_state import ShellState, ShellWitness
from core.errors import PathRefused, ToolFailed
from core.modes import Mode
from core.protocol.events import EffectsRecorded, ShellMoved
from core.sandbox.box import Box, Tier
from core.sandbox.result import CommandResult
from core.sandbox.runner import containment, run_command

KEEPING = frozenset({Mode.AGENT, Mode.DEBUG})
GONE = "The directory {} is not there any more: the command starts in the workspace root."


class Unboxed:
    """The box source of a machine, or a program, that has none."""

    tier = Tier.NONE

    async def find(self) -> Box | None:
        return None

    def words(self) -> str:
        return containment()


class Terminal:
    """One session's shell: where it stands, what runs in the background, and the way into the box."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.stand_as_told()
        self.jobs = Jobs(ground)
        self._leaving: set[asyncio.Task[object]] = set()
        self.probing: ProbeLayer | None = None  # while the user shows a fault: what they run has the probes
        self.at_end: list[Callable[[], Awaitable[None]]] = []

    @property
    def contained(self) -> bool:
        """Whether a command's effects are held. Ask `find` first."""
        return self.ground.box.tier.contains

    async def find(self) -> bool:
        """Find the box, if that was not done. Whether commands are contained."""
        await self.ground.box.find()
        return self.contained

    def keeps(self, *, typed: bool = False) -> bool:
        """Whether effects of a command that begins now wait for a review. `typed`: the user's own command."""
        state = self.ground.state
        mode = Mode(state.mode)
        if mode is Mode.DEBUG and self.contained and not typed and not state.debug.is_confirmed:
            return False  # nothing is changed before a cause is known
        return mode in KEEPING

    async def run(self, order: Order, on_output: Callable[[str], None]) -> CommandResult:
        """Run a command to its end. Cancelling stops it and drops what it changed.

        `AgentTuiError` when it can't be started; then nothing of it ran.
        """
        note = self._stand()
        box = await self.ground.box.find()
        if box is None:
            return await self._uncontained(order, on_output, note)
        execution = Execution(self.ground, order, self.shell, on_output)
        try:
            await execution.begin(box)
            result = await execution.end()
        except asyncio.CancelledError:
            self._abandon(execution)
            raise
        return self._with_notes(result, note, self._move(execution.witness))

    def _abandon(self, execution: Execution) -> None:
        """Let it end without keeping anybody waiting: whatever it still does is held, and dropped."""
        order = execution.order
        self.leave(execution.abandon())
        self.ground.emit(
            EffectsRecorded(call=order.origin.call, command=order.command, discarded=True, notes=(DROPPED,))
        )

    def leave(self, ending: Coroutine[Any, Any, object]) -> None:
        """Let something that runs come to its end; `close` waits for it."""
        task = asyncio.ensure_future(ending)
        self._leaving.add(task)
        task.add_done_callback(self._left)

    def _left(self, task: asyncio.Task[object]) -> None:
        self._leaving.discard(task)
        if not task.cancelled():
            task.exception()

    async def start(self, order: Order, on_output: Callable[[str], None], *, wait: float) -> CommandResult:
        """Start a command in the background and look at it for `wait` seconds. Its `job` is "" if it ended by then."""
        note = self._stand()
        box = await self.ground.box.find()
        if box is None:
            raise ToolFailed(
                "Nothing on this machine can hold a command in the background.",
                hint="Run it in the foreground with a timeout that it can end in, or ask the user to start it.",
            )
        execution = Execution(self.ground, order, self.shell, on_output)
        await execution.begin(box)
        job = self.jobs.take(execution, self.shell.directory)
        report = await self.jobs.read(job.id, wait)
        if report.result is not None:
            return self._with_notes(report.result, note, self._move(execution.witness))
        return CommandResult(
            exit_code=None,
            output=report.output,
            duration_ms=report.duration_ms,
            ended="running",
            directory=job.directory,
            notes=(note,) if note else (),
            job=job.id,
        )

    async def _uncontained(self, order: Order, on_output: Callable[[str], None], note: str) -> CommandResult:
        """In the project itself; the gate has asked for this very command."""
        if not order.keeps:
            raise ToolFailed("Nothing on this machine can hold a command's effects, so none runs in this mode.")
        execution = Execution(self.ground, order, self.shell, on_output)
        witness, output = execution.witness, execution.output
        try:
            result = await run_command(
                witness.script(order.command),
                cwd=self.ground.workspace.root / self.shell.directory,
                env=order.environment(self.shell.environment(self.ground.environment())),
                time_limit=order.seconds or 0,
                on_output=witness.feed,
            )
        finally:
            witness.finish()
            output.close()
        whole = CommandResult(
            exit_code=result.exit_code,
            output=output.text(),
            duration_ms=result.duration_ms,
            timed_out=result.timed_out,
            truncated=output.clipped or result.truncated,
            ended="timed_out" if result.timed_out else "exited" if result.exit_code is not None else "flooded",
            directory=self.shell.directory,
            spilled=output.file,
        )
        return self._with_notes(whole, note, self._move(witness))

    def _with_notes(self, result: CommandResult, *notes: str) -> CommandResult:
        from msgspec.structs import replace

        return replace(result, notes=(*result.notes, *filter(None, notes)))

    # where the shell stands

    def _stand(self) -> str:
        """Go back to the root when the shell's directory is gone (rejected, discarded). What to say about it."""
        directory = self.shell.directory
        try:
            found = None if directory == "." else self.ground.shadow.stat(directory)
        except PathRefused:
            found = None
        if directory == "." or (found is not None and found.kind == "directory"):
            return ""
        self._shell_is(ShellState(variables=self.shell.variables, removed=self.shell.removed))
        return GONE.format(directory)

    def _move(self, witness: ShellWitness) -> str:
        moved, note = witness.moved(self.shell, self.ground.workspace.root)
        self._shell_is(moved)
        return note

    def stand_as_told(self) -> None:
        """Where the session's own record says that the shell stands."""
        known = self.ground.state.shell
        self.shell = ShellState(
            directory=known.directory, variables=dict(known.environment), removed=frozenset(known.removed)
        )

    def reset(self) -> None:
        """Back to the workspace itself and the environment that the session began with."""
        self._shell_is(ShellState())

    def _shell_is(self, state: ShellState) -> None:
        old, self.shell = self.shell, state
        if _told(old) != _told(state):
            self.ground.emit(_told(state))

    # its end

    def job(self, name: str) -> Job:
        return self.jobs.job(name)

    def squash(self) -> None:
        """The end of a turn: what commands kept becomes one layer, if none of them lives."""
        if not self.jobs.alive and not self._leaving:
            self.ground.shadow.squash()

    async def close(self) -> None:
        """End what runs. What jobs did waits for the review."""
        for end in self.at_end:
            await end()
        await self.jobs.close()
        if self._leaving:
            await asyncio.wait(set(self._leaving))


def _told(state: ShellState) -> ShellMoved:
    return ShellMoved(directory=state.directory, environment=state.public(), removed=tuple(sorted(state.removed)))
