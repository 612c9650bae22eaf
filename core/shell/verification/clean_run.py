"""A check run alone, in a clean layer, and what its result proves.

The layer holds some pending text over the files on disk, and nothing else of the session: nothing that its commands
left in ignored files, in their shell (variables, functions, the directory), in `~/.cache` and in the state of git.
There is no network, and home, `/tmp` and `~/.cache` are fresh. The command's changes are dropped when it ends.

Passing is an exit code of 0 with no test failed and, for commands that run tests, at least one passed. The failure of a
run that lacked what commands of the session left in ignored files proves nothing against the text.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from core.errors import ToolFailed
from core.git.command_view import RepositoryView
from core.ids import new_id
from core.patterns import compile_lazily
from core.protocol.documents import Todo
from core.protocol.events import AnyEvent, TodoVerified, VerificationRecorded
from core.protocol.events.verification import Verification, VerificationOutcome
from core.protocol.review import Change, CheckKind
from core.sandbox.box import Box, BoxLimits, BoxRequest, BoxResult
from core.sandbox.results import CommandResult
from core.shadow.content.contents import Contents
from core.shadow.layers.layer_store import CommandLayer, LayerStore
from core.shadow.layers.merged_tree import MergedTree
from core.shadow.layers.pending_layer import PendingLayer
from core.shell.check_detection import CheckResult
from core.shell.command_host import CommandHost, get_memory_limit
from core.shell.disk_guard import DiskGuard
from core.shell.long_output import SECRETS_HIDDEN, CommandOutput
from core.shell.masked_output import MaskedOutput
from core.shell.verification.single_check import parse_check
from core.shell.verification.steering_files import find_changed_steering_files
from core.state.checks import CountedTests, find_run_counts, is_silent_run
from core.state.review import ReviewState
from core.workspace.secret_files import find_secret_values
from core.workspace.withheld_paths import WithheldPaths

TIME_LIMIT = 600.0  # seconds, independent of the time limit of the agent's run
NO_BOX = "Checks can't be sandboxed on this machine, so nothing is verified here."
DISCARDED = "its changes were discarded"
_NOT_FOUND: Final = frozenset({126, 127})  # exit codes of a shell that can't start a program
# Runners that always print counts.
_COUNTING: Final = compile_lazily(r"\b(?:py\.?test|unittest|doctest|jest|vitest|cargo\s+(?:test|nextest))\b")
_NOTHING_RAN: Final = compile_lazily(
    r"\bno tests? (?:ran|run|(?:were )?found|files|to run)|\[no test files\]|\b0 tests\b|is up to date\."
    r"|^make(?:\[\d+\])?: Nothing to be done for ",
    re.IGNORECASE | re.MULTILINE,
)
MAX_NAMED: Final = 4
MAX_OUTPUT: Final = 4_000  # characters of the output's tail in a result


class CleanRun:
    """One command over `text` (changes by path) and the disk; call `run` once. `on_output` gets its output in
    pieces (`core.state.live_text`), without the values of secret files."""

    def __init__(
        self, host: CommandHost, text: Mapping[str, Change], command: str, on_output: Callable[[str], None]
    ) -> None:
        self._host = host
        self._text = dict(text)
        self._command = command
        self._output = CommandOutput(host.directory, new_id("clean"))
        self._masked = MaskedOutput(self._output, on_output)
        self._withheld = WithheldPaths()

    async def run(self, time_limit: float = TIME_LIMIT) -> CommandResult:
        """Run the command to its end; cancelling stops it. Raises `AgentTuiError` if it can't be started: then no part
        of it ran. All its effects are dropped in any case."""
        box = await self._host.box.find()
        if box is None or not box.tier.is_contained:
            raise ToolFailed(NO_BOX, hint="agent-tui doctor says what the sandbox needs.")
        layers = self._host.shadow.layers
        layer = layers.create({})
        try:
            lowers = await asyncio.to_thread(self._lay_out, layer.upper.with_name("text"))
            box_result = await self._wait(box, await self._build_request(layer, lowers, time_limit), layer)
        finally:
            self._masked.finish()
            self._output.close()
            layers.close(layer.id, keep=False)
        return self._build_result(box_result)

    def _lay_out(self, directory: Path) -> tuple[Path, ...]:
        """Write the text as one layer, without the layers of commands below it."""
        shadow = self._host.shadow
        contents, state = Contents(shadow.blobs), ReviewState(changes=self._text)
        tree = MergedTree(shadow.workspace, contents, state, LayerStore(directory), lambda change: change.pending)
        top = PendingLayer(tree).sync({path: change.pending for path, change in self._text.items()})
        return (top,) if top is not None else ()

    async def _build_request(self, layer: CommandLayer, lowers: tuple[Path, ...], time_limit: float) -> BoxRequest:
        host = self._host
        self._withheld = withheld = await asyncio.to_thread(host.withheld)
        repository: RepositoryView = await asyncio.to_thread(host.repository)
        secrets = (*withheld.covered, *withheld.masked)
        self._masked.mask(await asyncio.to_thread(find_secret_values, host.workspace.root, secrets))
        return BoxRequest(
            workspace=host.workspace.root,
            command=self._command,
            env=host.build_environment() | repository.get_environment(),
            lowers=lowers,
            upper=layer.upper,
            work=layer.work,
            hidden=(*host.hidden, *withheld.outside),
            withheld=withheld.covered,
            masked=withheld.masked,
            readable=(*host.programs, *repository.list_readable()),
            repository=repository.directory,
            git_settings=repository.settings,
            limits=BoxLimits(seconds=time_limit, memory=get_memory_limit()),
            raw=True,
        )

    async def _wait(self, box: Box, request: BoxRequest, layer: CommandLayer) -> BoxResult:
        guard = DiskGuard(self._host.directory, layer)
        request = replace(request, limits=guard.limit_file_size(request.limits))
        running = await box.start(request, self._masked.feed)
        watch = asyncio.create_task(guard.watch(running))
        try:
            box_result = await running.wait()
            return replace(box_result, exit_code=None, end_reason="disk_full") if guard.reason else box_result
        except asyncio.CancelledError:
            await asyncio.shield(asyncio.ensure_future(running.stop()))
            raise
        finally:
            watch.cancel()

    def _build_result(self, box_result: BoxResult) -> CommandResult:
        secret_notes = [SECRETS_HIDDEN] if self._masked.has_masked else []
        return CommandResult(
            exit_code=box_result.exit_code,
            output=self._output.render_text(),
            duration_ms=box_result.duration_ms,
            timed_out=box_result.end_reason == "timed_out",
            truncated=self._output.is_clipped,
            ended=box_result.end_reason,
            effects=DISCARDED,
            notes=(*box_result.notes, *self._withheld.notes, *secret_notes),
            spilled_path=self._output.spilled_path,
            unproven=box_result.unproven,
        )


def list_acceptable_changes(changes: Mapping[str, Change]) -> dict[str, Change]:
    """Return all pending changes that can be accepted now; a conflict has no final text yet."""
    return {path: change for path, change in changes.items() if not change.conflict}


class CleanOutcome(NamedTuple):
    """`problem`: why the run proves nothing, as a sentence, "" = it passed; `counts` None: it counted no tests."""

    outcome: VerificationOutcome
    problem: str = ""
    counts: CountedTests | None = None


def judge_run(command: str, kind: CheckKind, result: CommandResult, missing: Sequence[str] = ()) -> CleanOutcome:
    """Judge a clean run. `missing`: ignored files of the session's commands, which were absent in the run."""
    command_text = f"`{' '.join(command.split())}`"
    if result.exit_code is None:
        reason = result.ended.replace("_", " ")
        return CleanOutcome("unclear", f"{command_text} could not be run clean: it did not finish ({reason}).")
    counts = find_run_counts(result.output, result.exit_code)
    if result.unproven:
        return CleanOutcome("unclear", f"{command_text} could not be run clean: {result.unproven}", counts)
    if result.exit_code or (counts is not None and counts.failed):
        return _judge_failure(command_text, result.exit_code, missing, counts)
    if counts is not None and not counts.passed:
        return CleanOutcome("unclear", f"{command_text} ran no passing test: zero tests prove nothing.", counts)
    if counts is None and kind == "tests" and has_run_nothing(command, result.output):
        return CleanOutcome("unclear", f"{command_text} did not report running any test: zero tests prove nothing.")
    return CleanOutcome("passed", counts=counts)


def has_run_nothing(command: str, output: str) -> bool:
    """Return True if a run that printed no test counts does not prove that any test ran: it says so, it is unexpectedly
    silent, or its runner always prints counts."""
    return bool(_COUNTING.search(command) or _NOTHING_RAN.search(output)) or is_silent_run(command, output)


def _judge_failure(command_text: str, code: int, missing: Sequence[str], counts: CountedTests | None) -> CleanOutcome:
    if not code and counts is not None:
        return CleanOutcome("failed", f"{command_text} exited with 0 and counted {counts.format()}.", counts)
    if missing:
        suffix = f" and {len(missing) - MAX_NAMED} more" if len(missing) > MAX_NAMED else ""
        names = f"{', '.join(missing[:MAX_NAMED])}{suffix}"
        detail = f"it exited with {code} without the ignored files that the session's commands left ({names})"
        return CleanOutcome("unclear", f"{command_text} could not be run clean: {detail}.", counts)
    if code in _NOT_FOUND:
        detail = f"a program it needs can't be started outside the session (exit code {code})"
        return CleanOutcome("unclear", f"{command_text} could not be run clean: {detail}.", counts)
    return CleanOutcome(
        "failed", f"{command_text} failed when run again, alone in a clean layer (exit code {code}).", counts
    )


def build_verification(
    command: str, check: CheckResult, *, text: Mapping[str, Change], result: CommandResult, host: CommandHost
) -> Verification:
    """Build the verification of `text` by the clean run of a check."""
    missing = list_missing(host.state.review)
    clean_outcome = judge_run(command, check.kind, result, missing)
    passed_count, failed_count, skipped_count = clean_outcome.counts or (None, None, None)
    return Verification(
        command=command,
        outcome=clean_outcome.outcome,
        kind=check.kind,
        exit_code=result.exit_code,
        duration_ms=result.duration_ms,
        problem=clean_outcome.problem,
        text={path: change.pending for path, change in text.items()},
        paths=check.paths,
        changed_here=find_changed_steering_files(text, command, host.shadow, is_of_tests=check.kind == "tests"),
        passed=passed_count,
        failed=failed_count,
        skipped=skipped_count,
        output=result.output[-MAX_OUTPUT:],
    )


def verify_todo_run(
    host: CommandHost, todo: Todo, *, plan: str, result: CommandResult, emit: Callable[[AnyEvent], None]
) -> TodoVerified:
    """Record the result of the clean run of a todo's `verify` command, for the todo and for the pending changes."""
    text = list_acceptable_changes(host.state.changes)
    check = parse_check(todo.verify, host.checks(), str(host.workspace.root))
    check_result = check if check is not None else CheckResult(exit_code=0)
    verification = build_verification(todo.verify, check_result, text=text, result=result, host=host)
    if check is not None:
        is_failure = verification.outcome == "unclear" and bool(result.exit_code)
        emit(VerificationRecorded(result=replace(verification, outcome="failed") if is_failure else verification))
    run = record_todo_run(todo, plan=plan, result=result)
    event = replace(run, problem=verification.problem, changed_here=verification.changed_here)
    emit(event)
    return event


def record_todo_run(todo: Todo, *, plan: str, result: CommandResult, is_unboxed: bool = False) -> TodoVerified:
    """Return the plain record of a run of a todo's command."""
    return TodoVerified(
        id=todo.id,
        plan=plan,
        command=todo.verify,
        exit_code=result.exit_code,
        output=result.output[-MAX_OUTPUT:],
        duration_ms=result.duration_ms,
        is_unboxed=is_unboxed,
    )


def list_missing(review: ReviewState) -> list[str]:
    """List the ignored files of the session's commands, which a clean layer lacks."""
    return [bulk.root for bulk in review.bulks if bulk.kind != "git" and not bulk.is_cache]
