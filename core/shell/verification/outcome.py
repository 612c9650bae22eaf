"""What the clean run of a check proves: its exit code, and the tests that it counted.

Passing is an exit code of 0 with no test failed; of what runs tests, with at least one passed. A run that was missing
what commands of the session left in ignored files proves nothing against the text either.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from core.protocol.review import CheckKind
from core.protocol.verification import VerificationOutcome
from core.sandbox.results import CommandResult
from core.state.test_counts import CountedTests, find_test_counts

_NOT_FOUND: Final = frozenset({126, 127})  # exit codes of a shell that could not start a program
_COUNTING: Final = re.compile(r"\b(?:py\.?test|unittest|jest|vitest|cargo\s+(?:test|nextest))\b")  # always tell counts
_NOTHING_RAN: Final = re.compile(r"\bno tests? (?:ran|run|found|files|to run)|\[no test files\]|\b0 tests\b", re.IGNORECASE)
MAX_NAMED: Final = 4


class CleanOutcome(NamedTuple):
    """`problem`: why the run proves nothing, as a sentence, "" = it has passed; `counts` None: it counted no tests."""

    outcome: VerificationOutcome
    problem: str = ""
    counts: CountedTests | None = None


def judge_run(command: str, kind: CheckKind, result: CommandResult, missing: Sequence[str] = ()) -> CleanOutcome:
    """Judge a clean run. `missing`: what commands of the session left in ignored files, which was not there."""
    shown = f"`{' '.join(command.split())}`"
    if result.exit_code is None:
        why = result.ended.replace("_", " ")
        return CleanOutcome("unclear", f"{shown} could not be checked clean: it did not come to an end ({why}).")
    counts = find_test_counts(result.output)
    if result.exit_code:
        return _judge_failure(shown, result.exit_code, missing)._replace(counts=counts)
    if counts is not None and counts.failed:
        return CleanOutcome("failed", f"{shown} ended with 0, and counted {counts.format()}.", counts)
    if counts is not None and not counts.passed:
        return CleanOutcome("unclear", f"{shown} ran no test that passed: zero tests prove nothing.", counts)
    if counts is None and kind == "tests" and (_COUNTING.search(command) or _NOTHING_RAN.search(result.output)):
        return CleanOutcome("unclear", f"{shown} did not say that any test ran: zero tests prove nothing.")
    return CleanOutcome("passed", counts=counts)


def _judge_failure(shown: str, code: int, missing: Sequence[str]) -> CleanOutcome:
    if missing:
        more = f" and {len(missing) - MAX_NAMED} more" if len(missing) > MAX_NAMED else ""
        names = f"{', '.join(missing[:MAX_NAMED])}{more}"
        about = f"it ended with {code} without what the session's commands left in ignored files ({names})"
        return CleanOutcome("unclear", f"{shown} could not be checked clean: {about}.")
    if code in _NOT_FOUND:
        about = f"a program that it needs can't be started outside of the session (exit code {code})"
        return CleanOutcome("unclear", f"{shown} could not be checked clean: {about}.")
    return CleanOutcome("failed", f"{shown} failed when it was run again, alone in a clean layer (exit code {code}).")
