"""Runs over the text as it is, and without the change: what all other runs are compared with.

Tests that fail also without the change, or that end differently when nothing was changed, are left out of every
verdict. A check that takes too long for so many runs, or whose runs differ as a whole, says nothing of a hunk.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from core.proof.hunk_classes import ChangedText
from core.proof.runs.records import RunRecord
from core.proof.runs.variant_runs import AT_ONCE, VariantResult, VariantRuns
from core.tasks import run_each

NO_TESTS: Final = "The check ran no test."
UNSEEN_TESTS: Final = "The check says that tests passed, but none was seen to run."
HIDES: Final = "The check passes, though a test that it ran fails."
FAILS: Final = "The check fails over these changes."
FAILS_ANYHOW: Final = "The check fails, without these changes too."
SLOW: Final = "the check takes more than {:.0f} s"
UNSTEADY: Final = "two runs of the check over the same text ended differently"
_FACTOR: Final = 10.0  # on the time of the base run: longer is no end
_LEAST_SECONDS: Final = 5.0
_RECORDING: Final = 1.3  # what a run may take longer since its lines are recorded
_MOST_FLAKY: Final = 0.1  # of all tests


class BaseRun(Struct, frozen=True, kw_only=True):
    """The run over the text as it is. `tests`: those that count; `failing`: those of them that fail, `known_failing`
    and `flaky` are left out. `problem`: as in `CheckEvidence`; `unknown`: why no hunk can be looked into."""

    seconds: float = 0.0
    tests: frozenset[str] = frozenset()
    failing: frozenset[str] = frozenset()
    known_failing: frozenset[str] = frozenset()
    flaky: frozenset[str] = frozenset()
    record: RunRecord = RunRecord()
    problem: str = ""
    unknown: str = ""

    @property
    def limit(self) -> float:
        """The seconds after which a variant hangs."""
        return max(_LEAST_SECONDS, self.seconds * _FACTOR)


async def run_base(
    runs: VariantRuns, texts: Iterable[ChangedText], *, suite_seconds: float, flaky: frozenset[str] | None
) -> BaseRun:
    """Run the check as often as it takes. `suite_seconds`: what takes longer is not looked into; `flaky`: those that
    are known, None = a second run tells. `runs` leaves out from now on what has to be. Raises `AgentTuiError`."""
    limit = suite_seconds * _RECORDING
    first, second = await _run_text(runs, limit, is_twice=flaky is None)
    if first.result.timed_out:
        return BaseRun(seconds=limit, unknown=SLOW.format(suite_seconds))
    failing = frozenset(end.test for end in first.record.failures)
    if problem := _find_problem(runs, first):
        return BaseRun(failing=failing, problem=problem)
    unknown = ""
    if flaky is None:
        flaky = _find_flaky(first, second)
        is_unsteady = _differ_wholly(first, second, flaky) or (flaky and not runs.check.records_tests)
        unknown = UNSTEADY if is_unsteady else ""
    failing, known, problem = failing - flaky, frozenset[str](), ""
    if not unknown and (failing or not (first.is_green or flaky)):
        variants = {text.change.path: text.take_out(text.change.hunks) for text in texts}
        known, problem = _judge_failing(runs, failing, await runs.run(variants, seconds=limit))
    runs.left_out = known | flaky
    tests = frozenset(end.test for end in first.record.ends if end.phase != "collect") - runs.left_out
    if known and not first.record.passed_tests - runs.left_out:  # a broken file or fixture ends all of them
        problem = FAILS_ANYHOW
    return BaseRun(
        seconds=first.result.duration_ms / 1000,
        tests=tests,
        failing=failing - known,
        known_failing=known,
        flaky=flaky,
        record=first.record,
        problem=problem,
        unknown=unknown,
    )


async def _run_text(runs: VariantRuns, seconds: float, *, is_twice: bool) -> tuple[VariantResult, VariantResult]:
    """Run the check over the text with its lines recorded, and beside that once more if it is to run twice."""
    results = dict[bool, VariantResult]()

    async def run(has_lines: bool) -> None:
        results[has_lines] = await runs.run(has_lines=has_lines, seconds=seconds)

    await run_each(run, (True, False) if is_twice else (True,), at_once=AT_ONCE)
    return results[True], results[not is_twice]


def _find_problem(runs: VariantRuns, first: VariantResult) -> str:
    """Return why a run tells nothing, "" = it may."""
    failures = first.record.failures
    has_none = first.record.collected == 0 or first.is_unclear or (first.record.ends and not first.record.passed_tests)
    if has_none and not failures:
        return NO_TESTS
    if first.result.exit_code == 0 and failures:
        return HIDES
    return UNSEEN_TESTS if runs.check.records_tests and first.is_green and first.record.was_cut_off else ""


def _judge_failing(runs: VariantRuns, failing: frozenset[str], old: VariantResult) -> tuple[frozenset[str], str]:
    """Return the tests that fail also without the change, and the problem that is left. `old`: the run without it."""
    known = failing & {end.test for end in old.record.failures}
    if known and failing == known and runs.check.records_tests:
        return known, ""
    is_old = failing == known and not old.is_green and not old.is_unclear
    return known, FAILS_ANYHOW if is_old else FAILS


def _find_flaky(first: VariantResult, second: VariantResult) -> frozenset[str]:
    """Return the tests that ended differently in two runs."""
    ends = [{(end.test, end.phase, end.outcome) for end in result.record.ends} for result in (first, second)]
    return frozenset(test for test, _, _ in ends[0] ^ ends[1])


def _differ_wholly(first: VariantResult, second: VariantResult, flaky: frozenset[str]) -> bool:
    if not first.record.ends or not second.record.ends:
        return first.is_green != second.is_green
    tests = {end.test for end in first.record.ends}
    return len(flaky) > max(1.0, len(tests) * _MOST_FLAKY)
