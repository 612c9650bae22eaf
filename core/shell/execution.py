"""One running command in a box: its layer, its output and its end, which happens exactly once.

The layer is opened before the command and absorbed after it, or dropped when the user stops it. A command of Ask or
Plan has no layer: its effects are in the box's memory and vanish with it. What a command changes in the project itself
(`--in-place`) stays there however it ends, and is recorded by surveys of the project.
"""

from __future__ import annotations

import asyncio
import os
import posixpath
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from core.errors import AgentTuiError, ToolFailed
from core.git.command_view import RepositoryView
from core.git.credentials import register_command_credentials
from core.protocol.events import CheckRecorded, EffectsRecorded, Notice
from core.protocol.review import Check, FileState
from core.sandbox.box import Box, BoxLimits, BoxRequest, BoxResult, RunningCommand, Tier
from core.sandbox.results import CommandResult, describe_left
from core.sandbox.tiers.dropped_changes import COMMIT_HINT, COMMITS_DROPPED, STASH
from core.secrets import list_masked_values
from core.shadow.content.paths import format_paths
from core.shadow.layers.layer_store import CommandLayer
from core.shell.check_detection import CheckResult, detect_checks
from core.shell.command_host import CommandHost, CommandRequest, get_memory_limit
from core.shell.disk_guard import DiskGuard
from core.shell.disk_survey import DiskRecord, DiskRecorder, build_disk_effects
from core.shell.live_view import LiveView
from core.shell.long_output import SECRETS_HIDDEN, CommandOutput
from core.shell.masked_output import MaskedOutput
from core.shell.shell_state import ShellState, ShellTracker
from core.shell.verification.single_check import NotACheck, parse_checks
from core.shell.verification.steering_files import find_changed_steering_files
from core.state.checks import CountedTests, find_run_counts, is_silent_run
from core.text.counting import count
from core.workspace.secret_files import find_secret_values
from core.workspace.withheld_paths import WithheldPaths

MAX_NAMED = 4  # paths in a line about effects
MAX_JOB_OUTPUT = 64 << 20  # bytes that a command in the background may write before it is ended
_DROPPED = "the changes it had made were dropped"
_STAY = "changes that it had already made stay in the project"  # in which it worked: there is no layer to drop
EFFECTS_DROPPED = f"Stopped before it finished; {_DROPPED}."
EFFECTS_STAY = f"Stopped before it finished; {_STAY}."
ENDED_FOR_SPACE = "Ended because {}; {}."
STASHED = "Git stashed changes, and a stash can't be kept here: stash and pop in one command."
TAKEN_BACK = "It reverted {}, which was pending review; the commit that has it is not kept."
NOT_REVIEWED = "not for review"  # about changes of a command outside of the box
GIT_HINT = 'What it did in git is in the shadow only; the user decides about it in the review. Say "proposed".'
RUN_AGAIN = "It was run again from the start; the changes of the first run were dropped."
BOX_LOST = "The sandbox ended before the command did; {}."


class Execution:
    """The execution of one request: call `begin`, then `end` or `abort`; or `wait`, then `settle` or `discard`."""

    def __init__(
        self, host: CommandHost, request: CommandRequest, shell: ShellState, on_output: Callable[[str], None]
    ) -> None:
        self.request = request
        self.output = CommandOutput(host.directory, request.output_name or request.origin.call)
        # The shell's own reports are taken out first: they begin at the cursor, and would overwrite what stands there.
        self._masked = MaskedOutput(self.output, on_output, is_raw=request.is_raw)
        self.tracker = ShellTracker(self._masked.feed)
        self._host = host
        self.shell = shell
        self._start_directory = shell.directory
        self._layer: CommandLayer | None = None
        self._started_ns = 0
        self._proxy: Path | None = None
        self._disk_guard: DiskGuard | None = None
        self._pending_before: dict[str, FileState] = {}
        self._withheld = WithheldPaths()
        self._repository = RepositoryView()
        self._tests = ""
        self._unproven: tuple[str, ...] = ()
        self._has_moved_git = False
        self._recorder: DiskRecorder | None = None
        self._survey: asyncio.Task[DiskRecord] | None = None  # of the project, after a command in it
        self.running: RunningCommand | None = None
        self.live: LiveView | None = None  # of a command in the background whose changes wait for the review

    def list_touched(self) -> tuple[str, ...]:
        """Return the paths that the command has written or removed so far; none if that is known only at its end."""
        with suppress(OSError):  # the command writes concurrently
            return tuple(self.live.list_written()) if self.live is not None else ()
        return ()

    @property
    def missed_count(self) -> int:
        """The number of paths that have changed in the project, and that the running command does not see."""
        return self.live.missed_count if self.live is not None else 0

    async def mask_secrets(self) -> None:
        """Mask the values of secret files in the output, except in raw output, which only the user reads."""
        withheld_paths, root = self._withheld, self._host.workspace.root
        await asyncio.to_thread(register_command_credentials, root, self._start_directory, self.request.command)
        if not self.request.is_raw:
            values = await asyncio.to_thread(
                find_secret_values, root, (*withheld_paths.covered, *withheld_paths.masked)
            )
            self._masked.mask((*values, *list_masked_values()))

    def finish_output(self) -> None:
        """Flush the output: the command prints no more."""
        self.tracker.finish()
        self._masked.finish()

    async def begin(self, box: Box) -> None:
        """Start the command. Raises `AgentTuiError` if it can't be started; then no part of it ran and no layer
        remains."""
        host = self._host
        self._withheld = await asyncio.to_thread(host.withheld)
        self._repository = await asyncio.to_thread(host.repository)
        await self.mask_secrets()
        self._pending_before = _list_pending(host)
        self._proxy = await host.proxy() if box.tier.uses_proxy else None
        if box.tier is Tier.IN_PLACE:
            await self._begin_in_place()
        elif self.request.keeps_effects:
            self._layer = host.shadow.open_layer()
        lowers = self._layer.lowers if self._layer else host.shadow.prepare_lowers()
        lowers = (*self.request.overlays, *lowers)
        self._disk_guard = DiskGuard(host.directory, self._layer, host.ensure_cache(), host.ensure_temporary())
        self._started_ns = time.time_ns()
        try:
            await host.shadow.dates.wait()
            on_stderr = self.request.on_stderr
            errors = partial(self._masked.feed_errors, on_errors=on_stderr) if on_stderr is not None else None
            is_lasting = self.request.time_limit is None or self.request.is_typed
            spec = await host.network.join(self._build_spec(lowers), is_lasting=is_lasting)
            self.running = await box.start(spec, self.tracker.feed, errors)
            if spec.takes_edits and self._layer is not None:
                self._begin_live_view(self._layer, self.running)
            if self.request.stdin is not None:
                self.running.send(self.request.stdin)
                self.running.close_input()
        except BaseException:
            self._drop_layer()
            raise

    def _begin_live_view(self, layer: CommandLayer, running: RunningCommand) -> None:
        withheld = {*self._withheld.covered, *self._withheld.masked}
        self.live = LiveView(self._host.shadow, layer, running.edits, withheld)
        self._host.shadow.live_trees.insert(0, self.live)

    def _end_live_view(self) -> None:
        live, self.live = self.live, None
        if live is not None:
            self._host.shadow.live_trees.remove(live)

    async def absorb_new_changes(self) -> str:
        """Absorb what the running command has written since the last call; return a line about it, "" = nothing. Raises
        `AgentTuiError`."""
        if self.live is None:
            return ""
        effects = await self.live.absorb_new_changes(self.request.origin, self._started_ns)
        return format_effects(effects) if effects is not None else ""

    async def _begin_in_place(self) -> None:
        """Write what is pending to the project, in which the command works, and survey it."""
        host = self._host
        await host.accept_pending()
        self._pending_before = _list_pending(host)
        if host.disk_recorder is not None:
            await asyncio.to_thread(host.disk_recorder.begin)
            self._recorder = host.disk_recorder

    async def _survey_project(self) -> None:
        """Survey the project after a command in it. The survey is made once, and cancelling does not end it, as it
        takes the changes from the recorder."""
        if self._recorder is not None:
            self._survey = self._survey or asyncio.create_task(asyncio.to_thread(self._recorder.end))
            await asyncio.shield(self._survey)

    def _record_in_place(self, survey: asyncio.Task[DiskRecord], note: str) -> str:
        """Record what the command has changed in the project itself. `note`: why it ended early, "" = it did not."""
        changes, writes = survey.result()
        effects = build_disk_effects(self.request.origin.call, self.request.command, changes, note)
        effects = replace(effects, in_place=True)
        self._host.emit(effects)
        for write in writes:
            self._host.emit(write)
        return format_effects(effects)

    def _build_spec(self, lowers: tuple[Path, ...]) -> BoxRequest:
        host, request, layer, repository = self._host, self.request, self._layer, self._repository
        is_job = request.time_limit is None
        limits = BoxLimits(seconds=request.time_limit, memory=get_memory_limit())
        limits = replace(limits, output=MAX_JOB_OUTPUT) if is_job else limits
        return BoxRequest(
            workspace=host.workspace.root,
            command=self.tracker.wrap_command(request.command),
            env=request.build_environment(
                self.shell.build_environment(host.build_environment() | repository.get_environment())
            ),
            lowers=lowers,
            upper=layer.upper if layer else None,
            work=layer.work if layer else None,
            cwd=self.shell.directory,
            cache=host.ensure_cache(),
            temporary=host.ensure_temporary(),
            hidden=(*host.hidden, *self._withheld.outside),
            withheld=self._withheld.covered,
            masked=self._withheld.masked,
            proxy=self._proxy,
            services=host.services() if self._proxy is not None else (),
            readable=(*host.readable(), *host.programs, *repository.list_readable()),
            repository=repository.directory,
            git_settings=repository.settings,
            limits=self._disk_guard.limit_file_size(limits) if self._disk_guard else limits,
            interactive=is_job or request.stdin is not None,
            takes_edits=is_job and layer is not None,
            raw=True,
        )

    async def end(self) -> CommandResult:
        """Wait for the end and absorb the effects. Cancelling leaves the command running: then call `abort`."""
        return self.settle(await self.wait())

    def settle(self, box_result: BoxResult) -> CommandResult:
        """Absorb the effects of a command that has ended."""
        for note in _list_lost_commits(box_result):  # the model may claim that it has committed
            self._host.emit(Notice(level="warning", message=note, hint=COMMIT_HINT))
        self.finish_output()
        self.output.close()
        return self._build_result(box_result, self._absorb_effects(box_result))

    async def wait(self) -> BoxResult:
        """Wait for the end without absorbing the effects: then call `settle`, or `discard`."""
        assert self.running is not None
        assert self._disk_guard is not None
        watch = asyncio.create_task(self._disk_guard.watch(self.running))
        try:
            box_result = await self.running.wait()
        finally:
            watch.cancel()
        await self._disk_guard.settle_shared()
        await self._survey_project()
        return replace(box_result, exit_code=None, end_reason="disk_full") if self._disk_guard.reason else box_result

    def _absorb_effects(self, box_result: BoxResult) -> str:
        request, layer = self.request, self._layer
        self._record_check(box_result)
        if self._survey is not None:
            return self._record_in_place(self._survey, self._explain_end(box_result, _STAY))
        if end_note := self._explain_end(box_result, _DROPPED):
            self._drop_layer()
            return self._emit_discarded(end_note)
        if layer is None:
            return self._emit_discarded()
        if reason := self._explain_loss(box_result, layer):
            self._drop_layer()
            return self._emit_discarded(reason)
        try:
            if self.live is not None:
                layer = self._layer = self._settle_live_view(self.live)
            effects = self._host.shadow.absorb(layer, origin=request.origin, started_ns=self._started_ns)
        except AgentTuiError:  # half of the effects would be worse than none; the caller reports the error
            self._drop_layer()
            raise
        self._layer = None
        self._has_moved_git = bool(effects.git)
        return format_effects(effects)

    def _settle_live_view(self, live: LiveView) -> CommandLayer:
        """Return the layer with what is left to absorb."""
        try:
            return live.settle()
        except OSError as error:
            raise ToolFailed(f"What it has written could not be read: {error.strerror}.") from error
        finally:
            self._end_live_view()

    def _explain_end(self, box_result: BoxResult, outcome: str) -> str:
        """Explain that the command was ended before its end, with the `outcome` for its changes; "" = it was not."""
        if box_result.end_reason == "lost":
            return BOX_LOST.format(outcome)
        if box_result.end_reason == "disk_full" and self._disk_guard is not None:
            return ENDED_FOR_SPACE.format(self._disk_guard.reason, outcome)
        return ""

    def _explain_loss(self, box_result: BoxResult, layer: CommandLayer) -> str | None:
        """Return why a command's effects are dropped ("": they are not): they would exist only in a lost commit or
        stash."""
        lost_commits = _list_lost_commits(box_result)
        if any(STASH in note for note in lost_commits):
            return STASHED
        lost_paths = self._host.shadow.list_reverted(layer) if lost_commits else ()
        return TAKEN_BACK.format(_format_paths(lost_paths)) if lost_paths else None

    def _emit_discarded(self, *notes: str) -> str:
        request = self.request
        effects = EffectsRecorded(call=request.origin.call, command=request.command, discarded=True, notes=notes)
        self._host.emit(effects)
        return format_effects(effects)

    def _record_check(self, box_result: BoxResult) -> None:
        """Record the check that the command was, if any, before its layer is absorbed.

        A command does not check its own changes. A check counts only for changes that were pending during its whole
        run.
        """
        host, request = self._host, self.request
        if box_result.exit_code is None or request.overlays or _list_pending(host) != self._pending_before:
            return
        check_result = detect_checks(request.command, box_result.exit_code, self.tracker.statuses, extra=host.checks())
        counts = self._count_tests(box_result.exit_code)
        if check_result is None or (
            not check_result.exit_code and counts is not None and (counts.failed or not counts.passed)
        ):
            return  # a runner that exits with 0 but reports failures, or no test at all, proves nothing
        if not check_result.exit_code and is_silent_run(request.command, self.output.render_text()):
            return  # nor does a silent one
        if box_result.unproven:
            self._unproven = (box_result.unproven,)
            return
        self._tests = counts.format() if counts is not None else ""
        start_path = host.workspace.root / self._start_directory
        paths = tuple(os.path.relpath(start_path / path, host.workspace.root) for path in check_result.paths)
        check = Check(
            call=request.origin.call,
            command=request.command,
            exit_code=check_result.exit_code,
            paths=paths,
            kind=check_result.kind,
            tests=self._tests,
            directory=self._start_directory,
            changed_here=self._find_changed_steering_files(check_result) if not check_result.exit_code else (),
        )
        host.emit(CheckRecorded(check=check))

    def _find_changed_steering_files(self, check: CheckResult) -> tuple[str, ...]:
        changes = {path: self._host.state.changes[path] for path in sorted(self._pending_before)}
        is_of_tests = check.kind == "tests"
        return find_changed_steering_files(changes, self.request.command, self._host.shadow, is_of_tests=is_of_tests)

    def _count_tests(self, exit_code: int) -> CountedTests | None:
        """Return the counts of tests, if only checks can have printed them; see `parse_checks`."""
        checks = parse_checks(
            self.request.command, patterns=self._host.checks(), workspace=str(self._host.workspace.root)
        )
        return None if isinstance(checks, NotACheck) else find_run_counts(self.output.render_text(), exit_code)

    def _build_result(self, box_result: BoxResult, effects: str) -> CommandResult:
        return CommandResult(
            exit_code=box_result.exit_code,
            output=self.output.render_text(),
            duration_ms=box_result.duration_ms,
            timed_out=box_result.end_reason == "timed_out",
            truncated=self.output.is_clipped,
            ended=box_result.end_reason,
            directory=self.shell.directory,
            effects=effects,
            tests=self._tests,
            notes=(
                *box_result.notes,
                *self._unproven,
                *self._withheld.notes,
                *([SECRETS_HIDDEN] if self._masked.has_masked else ()),
                *filter(None, [describe_left(box_result.left, goes_on=self._host.box.tier.leaves_processes)]),
            ),
            spilled_path=self.output.spilled_path,
            hints=(GIT_HINT,) if self._has_moved_git else (),
        )

    async def abort(self) -> None:
        """Stop the command and drop its effects; those in the project itself stay, and are recorded."""
        try:
            if self.running is not None:
                await self.running.stop()
            await self._survey_project()
        finally:
            self.discard()

    def discard(self) -> None:
        """Drop the effects of a command that has ended, as if it had not run; record those in the project itself."""
        self.finish_output()
        self.output.close()
        self._drop_layer()
        if self._survey is not None and self._survey.done():
            self._record_in_place(self._survey, EFFECTS_STAY)

    def _drop_layer(self) -> None:
        self._end_live_view()
        layer, self._layer = self._layer, None
        if layer is None:
            return
        try:
            self._host.shadow.drop_layer(layer)
        except AgentTuiError as problem:
            self._host.emit(Notice(level="warning", message=problem.message, hint=problem.hint))


def _list_lost_commits(box_result: BoxResult) -> list[str]:
    """Return the notes on commits, branches and stashes that are lost."""
    return [note for note in box_result.notes if note.startswith(COMMITS_DROPPED)]


def _list_pending(host: CommandHost) -> dict[str, FileState]:
    return {path: change.pending for path, change in host.state.changes.items()}


def format_effects(effects: EffectsRecorded) -> str:
    """Format effects: `changed: edited a.py; deleted 12 files below build; 240 generated files; pending review`."""
    if effects.on_machine:
        return _format_disk_changes(effects)
    if effects.discarded:
        return "; ".join(("its changes were discarded", *effects.notes))
    changes = _list_changes(effects)
    changes += [f"git: {effects.git}"] if effects.git else []
    waiting = ["pending review"] if changes else []
    if effects.generated:
        waiting = ["pending review"] if changes else ["kept outside the review"]
        changes.append(count("generated file", effects.generated))
    if effects.restored:
        waiting.append(f"back to the project's version: {_format_paths(effects.restored)}")
    if not changes and not waiting:
        return "; ".join(("changed nothing", *effects.notes))
    return f"changed: {'; '.join([*changes, *waiting, *effects.notes])}"


def _list_changes(effects: EffectsRecorded) -> list[str]:
    kinds = (("edited", effects.edited), ("created", effects.created), ("deleted", effects.deleted))
    changes = [f"{verb} {_format_paths(paths)}" for verb, paths in kinds if paths]
    for verb, folders in (("created", effects.folders), ("removed", effects.removed_folders)):
        if folders:
            changes.append(f"{verb} the empty folder{'s' * (len(folders) > 1)} {format_paths(folders)}")
    return changes


def _format_disk_changes(effects: EffectsRecorded) -> str:
    """Format a command's changes of the user's own files, which wait for no review."""
    changes = _list_changes(effects)
    parts = [*changes, NOT_REVIEWED] if changes else []
    return f"{'changed: ' if parts else ''}{'; '.join([*parts, *effects.notes])}"


def _format_paths(paths: Sequence[str]) -> str:
    if len(paths) <= MAX_NAMED:
        return ", ".join(paths)
    common = posixpath.commonpath(paths) if all(paths) else ""
    return f"{len(paths):,} files{f' below {common}' if common else ''}"
