"""The check without a hunk: the strongest evidence that there is, and exactly what rejecting it would do.

The tests that executed the hunk run first. That one of them fails is final; that none does is confirmed by the whole
check, since a line may also act on a test that did not execute it. Red by an assertion says that a test checks the
hunk; red by a crash only that other code uses it, unless the test itself asks for the name that is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from core.proof.hunk_classes import ChangedText
from core.proof.runs.executed_lines import HunkExecution
from core.proof.runs.records import TestEnd
from core.proof.runs.variant_runs import VariantResult, VariantRuns
from core.proof.variants.base_runs import BaseRun
from core.protocol.evidence import Needed
from core.protocol.review import Hunk
from core.shell.verification.clean_layer import FileVariant
from core.shell.verification.steering_files import is_test_file

# Errors of code that does not fit together; any other exception that ends a test is what the test is about.
_CRASHES_TEXT: Final = """
    NameError UnboundLocalError ImportError ModuleNotFoundError AttributeError TypeError SyntaxError IndentationError
    ReferenceError RecursionError"""
_CRASHES: Final = frozenset(_CRASHES_TEXT.split())
_RAISED: Final = "raised TypeError"  # by a statement of the code, which in a library is a crash as any other
_MOST_SELECTED: Final = 0.6  # of all tests: more are not worth a selection
_MOST_MESSAGE: Final = 200


class Ablation(Struct, frozen=True, kw_only=True):
    """The end of the check without a hunk; as in `HunkEvidence`. `unknown`: why that is not known."""

    needed: Needed = "unknown"
    by_tests: tuple[str, ...] = ()
    message: str = ""
    is_confirmed: bool = False
    unknown: str = ""


class Ablator:
    """Takes hunks out of the text that `base` ran over."""

    def __init__(self, runs: VariantRuns, base: BaseRun) -> None:
        self._runs, self._base = runs, base

    async def take_out(
        self, texts: Mapping[str, ChangedText], hunks: Mapping[str, Sequence[Hunk]], execution: HunkExecution
    ) -> Ablation:
        """Run the check without these hunks, by path, which are taken out together. Raises `AgentTuiError`."""
        variants = {path: texts[path].take_out(out) for path, out in hunks.items()}
        return await self.try_variant(variants, execution.tests)

    async def try_variant(self, variants: Mapping[str, FileVariant], tests: frozenset[str]) -> Ablation:
        """Run these tests over other texts; if none of them fails, the whole check. Raises `AgentTuiError`."""
        if tests and len(tests) <= len(self._base.tests) * _MOST_SELECTED:
            result = await self._runs.run(variants, tests=tests, is_brief=True, seconds=self._base.limit)
            if not result.is_green and not result.is_unclear:
                return self._judge(result)
        result = await self._runs.run(variants, is_brief=True, seconds=self._base.limit)
        if result.is_unclear:
            return _explain_unclear(result)
        return Ablation(needed="unnoticed", is_confirmed=True) if result.is_green else self._judge(result)

    def _judge(self, result: VariantResult) -> Ablation:
        failures = result.record.failures
        red = result.classify_red()
        if red == "hang":
            return Ablation(needed="hangs", is_confirmed=True)
        end = min(failures, key=self._rank) if failures else None
        is_checked = self._rank(end) == 0 if end is not None else red == "assertion"
        return Ablation(
            needed="checked" if is_checked else "used",
            by_tests=tuple(dict.fromkeys(end.test for end in failures if end.test)),
            message=describe_end(end) if end is not None else "",
            is_confirmed=True,
        )

    def _rank(self, end: TestEnd) -> int:
        """Return 0 for a failure that shows that a test checks the hunk, else 1."""
        is_elsewhere = end.kind == _RAISED and (not end.places or end.places[-1][0].startswith("/"))
        if end.phase == "call" and end.kind not in _CRASHES and not is_elsewhere:
            return 0
        is_of_test = bool(end.places) and is_test_file(end.places[-1][0])
        return 0 if end.kind in _CRASHES and is_of_test else 1


def describe_end(end: TestEnd) -> str:
    """Describe a failure in one line: `NameError: name 'x' is not defined`."""
    kind = "" if end.kind == "AssertionError" else end.kind
    return f"{kind}: {end.message}".strip(": ")[:_MOST_MESSAGE]


def _explain_unclear(result: VariantResult) -> Ablation:
    if result.record.collected == 0 or "no tests ran" in result.result.output:
        return Ablation(unknown="no test ran")
    return Ablation(unknown=result.result.unproven or "it could not be run")
