"""The terminal of a session: every command goes through it, the agent's and the user's, foreground and background.

It knows the shadow and the box. A command that the box can't start is an error and nothing else: it is never run
without one. Only where the machine has no box at all (tier T4) commands run in the project itself, each one after a
yes of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from msgspec.structs import replace

from core.errors import PathRefused, ToolFailed
from core.modes import Mode
from core.protocol.events import EffectsRecorded, ShellMoved
from core.sandbox.box import Box, BoxResult
from core.sandbox.results import CommandResult
from core.sandbox.unboxed_run import run_unboxed
from core.shell.command_host import CommandHost, CommandRequest
from core.shell.execution import EFFECTS_DROPPED, RUN_AGAIN, Execution
from core.shell.jobs import JobTable
from core.shell.probe_overlay import ProbeMount
from core.shell.shell_state import ShellState, ShellTracker
from core.tasks import TaskOwner

DIRECTORY_GONE = "The directory {} is not there any more: the command starts in the workspace root."


async def _run_once() -> bool:
    return False


class Terminal:
    """One session's shell: its state, its background jobs, and its box."""

    def __init__(self, host: CommandHost) -> None:
        self.host = host
        self.restore_shell()
        self.jobs = JobTable(host)
        self._finishing = TaskOwner()
        self.probe_mount: ProbeMount | None = None  # while the user shows a fault: what they run has the probes
        self.on_close: list[Callable[[], Awaitable[None]]] = []

    @property
    def is_contained(self) -> bool:
        """True if a command's effects are held. Call `find_box` first."""
        return self.host.box.tier.is_contained

    async def find_box(self) -> bool:
        """Find the box, if that was not done. True if commands are contained."""
        await self.host.box.find()
        return self.host.box.tier.is_contained

    def keeps_effects(self, *, is_typed: bool = False) -> bool:
        """True if effects of a command that begins now wait for a review. `is_typed`: the user's own command."""
        state = self.host.state
        mode = Mode(state.mode)
        if mode is Mode.DEBUG and self.is_contained and not is_typed and not state.debug.has_confirmed_cause:
            return False  # nothing is changed before a cause is known
        return mode.rules.keeps_effects

    async def run(
        self,
        order: CommandRequest,
        on_output: Callable[[str], None],
        should_run_again: Callable[[], Awaitable[bool]] = _run_once,
    ) -> CommandResult:
        """Run a command to its end. Cancelling stops it and drops what it changed.

        `should_run_again` is asked after each run in a box, while all that the run did is held back: with True that is
        dropped, and the command runs anew from where it began. Raises `AgentTuiError` when it can't be started; then
        nothing of it ran.
        """
        note = self._ensure_directory()
        box = await self.host.box.find()
        if box is None:
            return await self._run_unboxed(order, on_output, note)
        execution, box_result = await self._run_boxed(box, order, on_output)
        while await self._ask_after_run(execution, box_result, should_run_again):
            execution.discard()
            self._emit_dropped(order, RUN_AGAIN)
            execution, box_result = await self._run_boxed(box, order, on_output)
        result = execution.settle(box_result)
        return self._add_notes(result, note, self._update_shell(execution.tracker))

    async def _run_boxed(
        self, box: Box, order: CommandRequest, on_output: Callable[[str], None]
    ) -> tuple[Execution, BoxResult]:
        """Run a command once. Returns how it ended, with what it did still held back."""
        execution = Execution(self.host, order, self.shell, on_output)
        try:
            await execution.begin(box)
            return execution, await execution.wait()
        except asyncio.CancelledError:
            self._abandon(execution)
            raise

    async def _ask_after_run(
        self, execution: Execution, box_result: BoxResult, should_run_again: Callable[[], Awaitable[bool]]
    ) -> bool:
        """Ask whether a command is run again. A question that is called off leaves what the command did."""
        try:
            return await should_run_again()
        except BaseException:
            execution.settle(box_result)
            self._update_shell(execution.tracker)
            raise

    def _abandon(self, execution: Execution) -> None:
        """Stop a command without keeping anybody waiting: whatever it still does is held, and dropped."""
        self.finish_in_background(execution.abandon())
        self._emit_dropped(execution.request, EFFECTS_DROPPED)

    def _emit_dropped(self, order: CommandRequest, note: str) -> None:
        self.host.emit(EffectsRecorded(call=order.origin.call, command=order.command, discarded=True, notes=(note,)))

    def finish_in_background(self, ending: Coroutine[Any, Any, object]) -> None:
        """Let something that runs come to its end; `close` waits for it."""

        async def finish() -> None:
            with contextlib.suppress(Exception):  # nobody waits for what became of it
                await ending

        self._finishing.spawn(finish(), name="ending")

    async def start_job(self, order: CommandRequest, on_output: Callable[[str], None], *, wait: float) -> CommandResult:
        """Start a command in the background and watch it for `wait` seconds. `job` is "" if it ended by then."""
        note = self._ensure_directory()
        box = await self.host.box.find()
        if box is None:
            raise ToolFailed(
                "Nothing on this machine can hold a command in the background.",
                hint="Run it in the foreground with a timeout that it can end in, or ask the user to start it.",
            )
        execution = Execution(self.host, order, self.shell, on_output)
        await execution.begin(box)
        job = self.jobs.adopt(execution, self.shell.directory)
        report = await self.jobs.read(job.id, wait)
        if report.result is not None:
            return self._add_notes(report.result, note, self._update_shell(execution.tracker))
        return CommandResult(
            exit_code=None,
            output=report.output,
            duration_ms=report.duration_ms,
            ended="running",
            directory=job.directory,
            notes=(note,) if note else (),
            job=job.id,
        )

    async def _run_unboxed(self, order: CommandRequest, on_output: Callable[[str], None], note: str) -> CommandResult:
        """Run in the project itself; the gate has asked for this very command."""
        if not order.keeps_effects:
            raise ToolFailed("Nothing on this machine can hold a command's effects, so none runs in this mode.")
        shell = ShellState() if order.is_typed else self.shell
        execution = Execution(self.host, order, shell, on_output)
        witness, output = execution.tracker, execution.output
        try:
            result = await run_unboxed(
                witness.wrap_command(order.command),
                cwd=self.host.workspace.root / shell.directory,
                env=order.build_environment(shell.build_environment(self.host.build_environment())),
                time_limit=order.time_limit or 0,
                on_output=witness.feed,
            )
        finally:
            witness.finish()
            output.close()
        command_result = replace(
            result,
            output=output.render_text(),
            truncated=output.is_clipped or result.truncated,
            ended="timed_out" if result.timed_out else "exited" if result.exit_code is not None else "flooded",
            directory=shell.directory,
            spilled_path=output.spilled_path,
        )
        return command_result if order.is_typed else self._add_notes(command_result, note, self._update_shell(witness))

    def _add_notes(self, result: CommandResult, *notes: str) -> CommandResult:
        return replace(result, notes=(*result.notes, *filter(None, notes)))

    # where the shell stands

    def _ensure_directory(self) -> str:
        """Return to the root when the shell's directory is gone (rejected, discarded). Returns a note, "" = none."""
        directory = self.shell.directory
        try:
            stats = None if directory == "." else self.host.shadow.stat(directory)
        except PathRefused:
            stats = None
        if directory == "." or (stats is not None and stats.kind == "directory"):
            return ""
        self._set_shell(ShellState(variables=self.shell.variables, removed=self.shell.removed))
        return DIRECTORY_GONE.format(directory)

    def _update_shell(self, witness: ShellTracker) -> str:
        shell_state, note = witness.compute_state(self.shell, self.host.workspace.root)
        self._set_shell(shell_state)
        return note

    def restore_shell(self) -> None:
        """Restore the shell from the session's own record."""
        shell = self.host.state.shell
        self.shell = ShellState(
            directory=shell.directory, variables=dict(shell.environment), removed=frozenset(shell.removed)
        )

    def reset_shell(self) -> None:
        """Reset directory and environment to those that the session began with."""
        self._set_shell(ShellState())

    def _set_shell(self, state: ShellState) -> None:
        old, self.shell = self.shell, state
        if _build_shell_event(old) != _build_shell_event(state):
            self.host.emit(_build_shell_event(state))

    # its end

    def squash_layers(self) -> None:
        """Merge what commands kept into one layer at the end of a turn, if none of them lives."""
        if not self.jobs.running_jobs and not self._finishing.is_busy:
            self.host.shadow.squash()

    async def close(self) -> None:
        """End what runs. What jobs did waits for the review."""
        for end in self.on_close:
            await end()
        await self.jobs.close()
        await self._finishing.wait()


def _build_shell_event(state: ShellState) -> ShellMoved:
    return ShellMoved(
        directory=state.directory, environment=state.list_public_variables(), removed=tuple(sorted(state.removed))
    )
