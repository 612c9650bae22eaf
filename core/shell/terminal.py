"""The terminal of a session, which runs every command of the agent and the user, in foreground and background.

A command that the box can't start is an error: it never runs outside of the box instead. Commands run in the project
itself only where the user has chosen that (`--in-place`), and on a machine without any box (tier T4), after an approval
for every command.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from core.errors import PathRefused, ToolFailed
from core.modes import Mode
from core.protocol.events import EffectsRecorded, ShellMoved
from core.protocol.review import Origin
from core.sandbox.box import Box, BoxLimits, BoxResult
from core.sandbox.results import CommandResult
from core.sandbox.unboxed_run import run_unboxed
from core.shell.command_host import CommandHost, CommandRequest
from core.shell.execution import EFFECTS_DROPPED, EFFECTS_STAY, RUN_AGAIN, Execution
from core.shell.jobs import JobTable
from core.shell.probe_overlay import ProbeMount
from core.shell.shell_state import ShellState, ShellTracker
from core.tasks import TaskOwner

DIRECTORY_GONE = "The directory {} no longer exists: the command starts in the workspace root."


async def _run_once() -> bool:
    return False


class Terminal:
    """One session's shell: its state, its background jobs, and its box."""

    def __init__(self, host: CommandHost) -> None:
        self.host = host
        self.restore_shell()
        self.jobs = JobTable(host)
        self._finishing = TaskOwner()
        self._watched_count = 0  # commands whose output the program watches
        self.probe_mount: ProbeMount | None = None  # set while the user reproduces a fault
        self.on_close: list[Callable[[], Awaitable[None]]] = []

    @property
    def is_contained(self) -> bool:
        """True if a command's effects are contained. Call `find_box` first."""
        return self.host.box.tier.is_contained

    async def find_box(self) -> bool:
        """Select the box at the first call. True if commands are contained."""
        await self.host.box.find()
        return self.host.box.tier.is_contained

    def keeps_effects(self, *, is_typed: bool = False) -> bool:
        """True if effects of a command that begins now wait for a review. `is_typed`: the user's own command."""
        state = self.host.state
        mode = Mode(state.mode)
        if mode is Mode.DEBUG and self.is_contained and not is_typed and not state.debug.has_confirmed_cause:
            return False  # no changes before the cause is known
        return mode.rules.keeps_effects

    async def run(
        self,
        request: CommandRequest,
        on_output: Callable[[str], None],
        should_run_again: Callable[[], Awaitable[bool]] = _run_once,
    ) -> CommandResult:
        """Run a command to its end. Cancelling stops it and drops its changes; those in the project itself stay.

        `should_run_again` is asked after every run in a box, before its effects are absorbed: with True they are
        dropped, and the command runs again from its first state. Raises `AgentTuiError` when it can't be started; then
        no part of it ran.
        """
        note = self._ensure_directory()
        box = await self.host.box.find()
        if box is None:
            return await self._run_unboxed(request, on_output, note)
        execution, box_result = await self._run_boxed(box, request, on_output)
        while await self._ask_after_run(execution, box_result, should_run_again):
            execution.discard()
            self._emit_dropped(request, RUN_AGAIN)
            execution, box_result = await self._run_boxed(box, request, on_output)
        result = execution.settle(box_result)
        return self._add_notes(result, note, self._update_shell(execution.tracker))

    async def run_passing(
        self, box: Box, command: str, *, lowers: tuple[Path, ...], cwd: str, seconds: float, max_output: int
    ) -> tuple[BoxResult, str, bool]:
        """Run a command of the program's own, whose effects are dropped, over the layers `lowers`.

        Returns its end, at most `max_output` characters of its output, and True if there was more. Cancelling stops it.
        """
        parts, room = list[str](), max_output

        def add(text: str) -> None:
            nonlocal room
            parts.append(text[: max(room, 0)])
            room -= len(text)

        request = await self.host.build_passing_request(
            command, lowers=lowers, cwd=cwd, limits=BoxLimits(seconds=seconds)
        )
        running = await box.start(request, add)
        try:
            box_result = await running.wait()
        except asyncio.CancelledError:
            self.finish_in_background(running.stop())
            raise
        return box_result, "".join(parts), room < 0

    async def watch_command(self, command: str, origin: Origin, on_output: Callable[[str], None]) -> BoxResult:
        """Run a command of the user's in the box without a time limit, from the root; its effects are dropped. Returns
        its end. Raises `AgentTuiError` where it can't be started. Cancelling stops it."""
        box = await self.host.box.find()
        if box is None:
            raise ToolFailed("Commands can't be sandboxed on this machine, so none can be watched.")
        request = CommandRequest(command=command, origin=origin, keeps_effects=False, time_limit=None)
        execution = Execution(self.host, request, ShellState(), on_output)
        self._watched_count += 1
        try:
            await execution.begin(box)
            box_result = await execution.wait()
        except asyncio.CancelledError:
            self.finish_in_background(execution.abort())
            raise
        finally:
            self._watched_count -= 1
        execution.discard()
        return box_result

    async def _run_boxed(
        self, box: Box, request: CommandRequest, on_output: Callable[[str], None]
    ) -> tuple[Execution, BoxResult]:
        """Run a command once. Returns its result, with the effects not absorbed yet."""
        execution = Execution(self.host, request, self.shell, on_output)
        try:
            await self.jobs.update_views()
            await execution.begin(box)
            return execution, await execution.wait()
        except asyncio.CancelledError:
            self._abort(execution)
            raise

    async def _ask_after_run(
        self, execution: Execution, box_result: BoxResult, should_run_again: Callable[[], Awaitable[bool]]
    ) -> bool:
        """Ask whether a command runs again. If the question is cancelled, the effects are absorbed."""
        try:
            return await should_run_again()
        except BaseException:
            execution.settle(box_result)
            self._update_shell(execution.tracker)
            raise

    def _abort(self, execution: Execution) -> None:
        """Stop a command in the background, and drop its effects, or record those in the project itself."""
        self.finish_in_background(execution.abort())
        if self.is_contained:
            self._emit_dropped(execution.request, EFFECTS_DROPPED)

    def describe_stop(self) -> str:
        """Describe a command that was stopped before it finished, and what became of its changes."""
        return EFFECTS_DROPPED if self.is_contained else EFFECTS_STAY

    def _emit_dropped(self, request: CommandRequest, note: str) -> None:
        self.host.emit(
            EffectsRecorded(call=request.origin.call, command=request.command, discarded=True, notes=(note,))
        )

    def finish_in_background(self, ending: Coroutine[Any, Any, object]) -> None:
        """Finish a coroutine in the background; `close` waits for it."""

        async def finish() -> None:
            with contextlib.suppress(Exception):  # its result is not needed
                await ending

        self._finishing.spawn(finish(), name="ending")

    async def start_job(
        self, request: CommandRequest, on_output: Callable[[str], None], *, wait: float
    ) -> CommandResult:
        """Start a command in the background and wait for `wait` seconds. `job` is "" if it ended by then."""
        note = self._ensure_directory()
        box = await self.host.box.find()
        if box is None:
            raise ToolFailed(
                "Background commands can't be sandboxed on this machine.",
                hint="Run it in the foreground with a long enough timeout, or ask the user to start it.",
            )
        execution = Execution(self.host, request, self.shell, on_output)
        await self.jobs.update_views()
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

    async def _run_unboxed(self, request: CommandRequest, on_output: Callable[[str], None], note: str) -> CommandResult:
        """Run a command in the project itself; the user has approved this very command."""
        if not request.keeps_effects:
            raise ToolFailed("Commands can't be sandboxed on this machine, so none runs in this mode.")
        shell = ShellState() if request.is_typed else self.shell
        execution = Execution(self.host, request, shell, on_output)
        tracker, output = execution.tracker, execution.output
        try:
            result = await run_unboxed(
                tracker.wrap_command(request.command),
                cwd=self.host.workspace.root / shell.directory,
                env=request.build_environment(shell.build_environment(self.host.build_environment())),
                time_limit=request.time_limit or 0,
                on_output=tracker.feed,
            )
        finally:
            tracker.finish()
            output.close()
        command_result = replace(
            result,
            output=output.render_text(),
            truncated=output.is_clipped or result.truncated,
            ended="timed_out" if result.timed_out else "exited" if result.exit_code is not None else "flooded",
            directory=shell.directory,
            spilled_path=output.spilled_path,
        )
        return (
            command_result if request.is_typed else self._add_notes(command_result, note, self._update_shell(tracker))
        )

    def _add_notes(self, result: CommandResult, *notes: str) -> CommandResult:
        return replace(result, notes=(*result.notes, *filter(None, notes)))

    # the shell's state

    def _ensure_directory(self) -> str:
        """Reset the shell's directory to the root if it has vanished (rejected, discarded). Returns a note, "" =
        none."""
        directory = self.shell.directory
        try:
            stats = None if directory == "." else self.host.shadow.stat(directory)
        except PathRefused:
            stats = None
        if directory == "." or (stats is not None and stats.kind == "directory"):
            return ""
        self._set_shell(ShellState(variables=self.shell.variables, removed=self.shell.removed))
        return DIRECTORY_GONE.format(directory)

    def _update_shell(self, tracker: ShellTracker) -> str:
        shell_state, note = tracker.compute_state(self.shell, self.host.workspace.root)
        self._set_shell(shell_state)
        return note

    def restore_shell(self) -> None:
        """Restore the shell from the session's own record."""
        shell = self.host.state.shell
        self.shell = ShellState(
            directory=shell.directory, variables=dict(shell.environment), removed=frozenset(shell.removed)
        )

    def reset_shell(self) -> None:
        """Reset directory and environment to their initial values."""
        self._set_shell(ShellState())

    def _set_shell(self, state: ShellState) -> None:
        old, self.shell = self.shell, state
        if _build_shell_event(old) != _build_shell_event(state):
            self.host.emit(_build_shell_event(state))

    # the end

    def squash_layers(self) -> None:
        """Merge the layers of commands into one at the end of a turn, if no command is running."""
        if not (self.jobs.running_jobs or self._watched_count or self._finishing.is_busy):
            self.host.shadow.squash()

    async def close(self) -> None:
        """End all running commands. The effects of jobs wait for the review."""
        for end in self.on_close:
            await end()
        await self.jobs.close()
        await self._finishing.wait()
        await self.host.network.close()
        await asyncio.to_thread(self.host.remove_temporary)


def _build_shell_event(state: ShellState) -> ShellMoved:
    return ShellMoved(
        directory=state.directory, environment=state.list_public_variables(), removed=tuple(sorted(state.removed))
    )
