"""Old and new tests over old and new code: what the changed tests prove, and what the old ones say of the new code.

New tests have to fail over the old code, or they prove nothing of the change. An old test that fails over the new code
is a question for the reviewer: the behaviour that it described has changed. Where no test of today notices a hunk, it
may be that one: then it is named with the hunk.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from core.proof.classes.weakened_tests import find_touched
from core.proof.hunk_classes import ChangedText
from core.proof.runs.records import RunRecord, TestEnd
from core.proof.runs.variant_runs import VariantResult, VariantRuns
from core.proof.variants.linked_hunks import find_missing_name
from core.protocol.review import Hunk
from core.shell.verification.clean_layer import FileVariant

_UNPARSED: Final = ("SyntaxError", "IndentationError")


class OldAndNew(Struct, frozen=True):
    """As in `CheckEvidence`."""

    broken_old: tuple[str, ...] = ()
    red_new: tuple[str, ...] = ()
    green_new: tuple[str, ...] = ()


class OldAndNewTests:
    """The tests of a change as they were and as they are. `tests`, `code`: the changed files by path; `base`: the run
    over the new text; `seconds`: the limit of one run."""

    def __init__(
        self,
        tests: Mapping[str, ChangedText],
        code: Mapping[str, ChangedText],
        base: RunRecord,
        runs: VariantRuns,
        seconds: float,
    ) -> None:
        self._tests, self._code, self._base, self._runs, self._seconds = tests, code, base, runs, seconds
        self._old = {path: text for path, text in tests.items() if text.change.operation != "create"}
        self._broken_old = frozenset[str]()
        self._passed_names = {test.partition("[")[0] for test in base.passed_tests}

    async def compare(self) -> OldAndNew:
        """Run the old tests over the new code, and the new tests over the old code. Raises `AgentTuiError`."""
        if not self._tests or not self._code:
            return OldAndNew()
        names = {path: _list_touched(text) for path, text in self._tests.items()}
        changed_tests = frozenset(
            test
            for test in self._base.passed_tests
            if _get_name(test) in names.get(find_file(test, self._tests), frozenset())
        )
        broken_old = await self._find_broken_old() if self._old else ()
        self._broken_old = frozenset(broken_old)
        if not changed_tests:
            return OldAndNew(broken_old)
        result = await self._runs.run(_revert(self._code), tests=changed_tests, seconds=self._seconds)
        return _judge_new(result, changed_tests, broken_old)

    async def _find_broken_old(self) -> tuple[str, ...]:
        """Return the old tests that fail over the new code, and not over the old: of a file that can't be imported over
        the new code all."""
        result = await self._runs.run(_revert(self._old), files=self._old, seconds=self._seconds)
        broken = {end.test for end in result.record.failures if find_file(end.test, self._old)}
        if not broken:
            return ()
        files = {_get_file(test) for test in broken if "::" in test} | (broken & set(self._old))
        tests = () if broken & set(self._old) else broken
        text = _revert({**self._old, **self._code})
        result = await self._runs.run(text, tests=tests, files=files, seconds=self._seconds)
        passed = result.record.passed_tests
        return tuple(sorted(test for test in passed if test in broken or _get_file(test) in broken))

    async def find_broken_by(self, hunks: Mapping[str, Sequence[Hunk]], *, only_gone: bool = False) -> tuple[str, ...]:
        """Return the old tests that fail because of hunks, by path: they pass without them, or these alone make them
        fail. `only_gone`: of those that the change has taken away. Raises `AgentTuiError`."""
        changed = {path: text for path, text in self._code.items() if hunks.get(path)}
        tests = frozenset(filter(self.is_gone, self._broken_old)) if only_gone else self._broken_old
        if not tests or not changed:
            return ()
        without = _revert(self._old) | {path: text.take_out(hunks[path]) for path, text in changed.items()}
        result = await self._runs.run(without, tests=tests, seconds=self._seconds)
        if passed := tests & result.record.passed_tests:
            return tuple(sorted(passed))
        ids = {hunk.id for own in hunks.values() for hunk in own}
        others = {path: [hunk for hunk in text.change.hunks if hunk.id not in ids] for path, text in self._code.items()}
        alone = _revert(self._old) | {path: text.take_out(others[path]) for path, text in self._code.items()}
        result = await self._runs.run(alone, tests=tests, seconds=self._seconds)
        failures = [end for end in result.record.failures if end.test in tests]
        return tuple(sorted(end.test for end in failures if not self._is_of_others(end, others)))

    def is_gone(self, test: str) -> bool:
        """Return True if the function of an old test passes no more under its name; its parameters may be others."""
        return test.partition("[")[0] not in self._passed_names

    def _is_of_others(self, end: TestEnd, others: Mapping[str, Sequence[Hunk]]) -> bool:
        """Return True if a test fails since something is missing that other hunks bring."""
        name = find_missing_name(end.message)
        if end.kind in _UNPARSED or not name:
            return end.kind in _UNPARSED
        pattern = re.compile(rf"\b{re.escape(name)}\b")
        return any(
            pattern.search(line)
            for path, hunks in others.items()
            for hunk in hunks
            for line in self._read_lines(path)[hunk.new_start - 1 :][: hunk.new_lines]
        )

    def _read_lines(self, path: str) -> list[str]:
        return self._code[path].pending.decode("utf-8", "replace").split("\n")


def _judge_new(result: VariantResult, changed_tests: frozenset[str], broken_old: tuple[str, ...]) -> OldAndNew:
    """Split the tests of the change; of a file that can't be imported over the old code all are red."""
    failed = {end.test for end in result.record.failures}
    red = sorted(test for test in changed_tests if test in failed or _get_file(test) in failed)
    green = sorted(test for test in changed_tests if test in result.record.passed_tests)
    return OldAndNew(broken_old, tuple(red), tuple(green))


def _revert(texts: Mapping[str, ChangedText]) -> dict[str, FileVariant]:
    return {path: text.take_out(text.change.hunks) for path, text in texts.items()}


def _list_touched(text: ChangedText) -> frozenset[str]:
    pending = text.pending.decode("utf-8", "replace")
    return frozenset[str]().union(*find_touched(text.change.path, pending, text.change.hunks).values())


def _get_name(test: str) -> str:
    """Return the name of the function of a test: `tests/test_a.py::Shop::test_over[1]` is of `test_over`, and so is
    `tests.test_a.Shop.test_over`."""
    name = test.rpartition("::")[2].partition("[")[0]
    return name if "::" in test else name.rpartition(".")[2]


def _get_file(test: str) -> str:
    return test.partition("::")[0]


def find_file(test: str, paths: Iterable[str]) -> str:
    """Return the file of a test among these, by its path (pytest) or by the end of its module's name (unittest); "" =
    it is in none of them."""
    file = _get_file(test)
    module = "." + file.rpartition(".")[0].rpartition(".")[0]
    dotted = {path: "." + path.removesuffix(".py").replace("/", ".") for path in paths}
    return next((path for path in dotted if path == file or (len(module) > 1 and dotted[path].endswith(module))), "")
