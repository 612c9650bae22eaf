"""A check run alone, in a clean layer, and what its result proves.

Passing is an exit code of 0 with no test failed and, for commands that run tests, at least one passed. The failure of a
run that lacked what commands of the session left in ignored files proves nothing against the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from core.patterns import compile_lazily
from core.protocol.documents import Todo
from core.protocol.events import AnyEvent, TodoVerified, VerificationRecorded
from core.protocol.events.verification import Verification, VerificationOutcome
from core.protocol.review import Change, CheckKind
from core.sandbox.results import CommandResult
from core.shell.check_detection import CheckResult
from core.shell.command_host import CommandHost
from core.shell.verification.clean_layer import TIME_LIMIT, CleanLayer, CleanRunOptions
from core.shell.verification.single_check import parse_check
from core.shell.verification.steering_files import find_changed_steering_files
from core.state.checks import CountedTests, find_run_counts, is_silent_run
from core.state.failure_excerpts import list_failure_lines, names_test
from core.state.review import ReviewState
from core.text.display_names import cut_middle

_NOT_FOUND: Final = frozenset({126, 127})  # exit codes of a shell that can't start a program
# Runners that always print counts.
_COUNTING: Final = compile_lazily(r"\b(?:py\.?test|unittest|doctest|jest|vitest|cargo\s+(?:test|nextest))\b")
_NOTHING_RAN: Final = compile_lazily(
    r"\bno tests? (?:ran|run|(?:were )?found|files|to run)|\[no test files\]|\b0 tests\b|is up to date\."
    r"|^make(?:\[\d+\])?: Nothing to be done for ",
    re.IGNORECASE | re.MULTILINE,
)
MAX_NAMED: Final = 4
MAX_COMMAND: Final = 120  # characters of a command in a sentence
MAX_OUTPUT: Final = 4_000  # characters of the output's tail in a result


async def run_clean(
    host: CommandHost,
    text: Mapping[str, Change],
    command: str,
    on_output: Callable[[str], None],
    time_limit: float = TIME_LIMIT,
) -> CommandResult:
    """Run one command over `text` (changes by path) and the disk to its end; cancelling stops it. All its effects are
    dropped in any case. Raises `AgentTuiError` if it can't be started: then no part of it ran."""
    layer = CleanLayer(host, text)
    try:
        await layer.open()
        return await layer.run(command, on_output, CleanRunOptions(seconds=time_limit))
    finally:
        layer.close()


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
    command_text = f"`{cut_middle(' '.join(command.split()), MAX_COMMAND)}`"
    if result.exit_code is None:
        reason = result.ended.replace("_", " ")
        return CleanOutcome("unclear", f"{command_text} could not be run clean: it did not finish ({reason}).")
    counts = find_run_counts(result.output, result.exit_code)
    if result.unproven:
        return CleanOutcome("unclear", f"{command_text} could not be run clean: {result.unproven}", counts)
    if result.exit_code or (counts is not None and counts.failed):
        outcome = _judge_failure(command_text, result.exit_code, missing, counts)
        failing = next(filter(names_test, list_failure_lines(result.output)), "")
        has_failed = outcome.outcome == "failed" and failing
        return outcome._replace(problem=f"{outcome.problem} {failing.strip()}") if has_failed else outcome
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
