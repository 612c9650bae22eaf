"""The proof in the clean run of a check: its exit code, and the tests that it counted.

Passing is an exit code of 0 with no test failed; of what runs tests, with at least one passed. A run that was missing
what commands of the session left in ignored files proves nothing against the text either.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from core.protocol.documents import Todo
from core.protocol.events import AnyEvent, TodoVerified, VerificationRecorded
from core.protocol.events.verification import Verification, VerificationOutcome
from core.protocol.review import Change, CheckKind
from core.sandbox.results import CommandResult
from core.shell.check_detection import CheckResult
from core.shell.command_host import CommandHost
from core.shell.verification.clean_run import list_whole_text
from core.shell.verification.handed_on import find_changed_judges
from core.shell.verification.single_check import parse_check
from core.state.checks import CountedTests, find_run_counts, is_silent_run
from core.state.review import ReviewState

_NOT_FOUND: Final = frozenset({126, 127})  # exit codes of a shell that could not start a program
# What always tells counts.
_COUNTING: Final = re.compile(r"\b(?:py\.?test|unittest|doctest|jest|vitest|cargo\s+(?:test|nextest))\b")
_NOTHING_RAN: Final = re.compile(
    r"\bno tests? (?:ran|run|(?:were )?found|files|to run)|\[no test files\]|\b0 tests\b|is up to date\."
    r"|^make(?:\[\d+\])?: Nothing to be done for ",
    re.IGNORECASE | re.MULTILINE,
)
MAX_NAMED: Final = 4
MAX_OUTPUT: Final = 4_000  # characters of output, its end, that are kept with a result


class CleanOutcome(NamedTuple):
    """`problem`: why the run proves nothing, as a sentence, "" = it has passed; `counts` None: it counted no tests."""

    outcome: VerificationOutcome
    problem: str = ""
    counts: CountedTests | None = None


def judge_run(command: str, kind: CheckKind, result: CommandResult, missing: Sequence[str] = ()) -> CleanOutcome:
    """Judge a clean run. `missing`: what commands of the session left in ignored files, which was not there."""
    command_text = f"`{' '.join(command.split())}`"
    if result.exit_code is None:
        reason = result.ended.replace("_", " ")
        return CleanOutcome(
            "unclear", f"{command_text} could not be checked clean: it did not come to an end ({reason})."
        )
    counts = find_run_counts(result.output, result.exit_code)
    if result.exit_code:
        return _judge_failure(command_text, result.exit_code, missing)._replace(counts=counts)
    if counts is not None and counts.failed:
        return CleanOutcome("failed", f"{command_text} ended with 0, and counted {counts.format()}.", counts)
    if counts is not None and not counts.passed:
        return CleanOutcome("unclear", f"{command_text} ran no test that passed: zero tests prove nothing.", counts)
    if counts is None and kind == "tests" and has_run_nothing(command, result.output):
        return CleanOutcome("unclear", f"{command_text} did not say that any test ran: zero tests prove nothing.")
    return CleanOutcome("passed", counts=counts)


def has_run_nothing(command: str, output: str) -> bool:
    """Return True if a run of tests that counted none has not shown that any ran: it says so, it says nothing at all
    though it would, or its runner always counts."""
    return bool(_COUNTING.search(command) or _NOTHING_RAN.search(output)) or is_silent_run(command, output)


def _judge_failure(command_text: str, code: int, missing: Sequence[str]) -> CleanOutcome:
    if missing:
        suffix = f" and {len(missing) - MAX_NAMED} more" if len(missing) > MAX_NAMED else ""
        names = f"{', '.join(missing[:MAX_NAMED])}{suffix}"
        detail = f"it ended with {code} without what the session's commands left in ignored files ({names})"
        return CleanOutcome("unclear", f"{command_text} could not be checked clean: {detail}.")
    if code in _NOT_FOUND:
        detail = f"a program that it needs can't be started outside of the session (exit code {code})"
        return CleanOutcome("unclear", f"{command_text} could not be checked clean: {detail}.")
    return CleanOutcome(
        "failed", f"{command_text} failed when it was run again, alone in a clean layer (exit code {code})."
    )


def build_verification(
    command: str, check: CheckResult, *, text: Mapping[str, Change], result: CommandResult, host: CommandHost
) -> Verification:
    """Return what the clean run of a check over `text` proves of it."""
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
        changed_here=find_changed_judges(text, command, host.shadow, is_of_tests=check.kind == "tests"),
        passed=passed_count,
        failed=failed_count,
        skipped=skipped_count,
        output=result.output[-MAX_OUTPUT:],
    )


def verify_todo_run(
    host: CommandHost, todo: Todo, *, plan: str, result: CommandResult, emit: Callable[[AnyEvent], None]
) -> TodoVerified:
    """Record what the clean run of a todo's `verify` command proves, of the todo and of what is pending."""
    text = list_whole_text(host.state.changes)
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
    """List what commands of the session left in ignored files, which a clean layer has not."""
    return [bulk.root for bulk in review.bulks if bulk.kind != "git" and not bulk.is_cache]
