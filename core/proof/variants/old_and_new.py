"""Old and new tests over old and new code: what the changed tests prove, and what the old ones say of the new code.

New tests have to fail over the old code, or they prove nothing of the change. An old test that fails over the new code
is a question for the reviewer: the behaviour that it described has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from core.proof.classes.weakened_tests import find_touched
from core.proof.hunk_classes import ChangedText
from core.proof.runs.records import RunRecord
from core.proof.runs.variant_runs import VariantResult, VariantRuns
from core.shell.verification.clean_layer import FileVariant


class OldAndNew(Struct, frozen=True):
    """As in `CheckEvidence`."""

    broken_old: tuple[str, ...] = ()
    red_new: tuple[str, ...] = ()
    green_new: tuple[str, ...] = ()


async def compare_old_and_new(
    tests: Mapping[str, ChangedText],
    code: Mapping[str, ChangedText],
    base: RunRecord,
    runs: VariantRuns,
    seconds: float,
) -> OldAndNew:
    """Run the old tests over the new code, and the new tests over the old code. `tests`, `code`: the changed files by
    path; `base`: the run over the new text. Raises `AgentTuiError`."""
    if not tests or not code:
        return OldAndNew()
    names = {path: _list_touched(text) for path, text in tests.items()}
    changed_tests = frozenset(
        test for test in base.passed_tests if _get_name(test) in names.get(find_file(test, tests), frozenset())
    )
    old_texts = {path: text for path, text in tests.items() if text.change.operation != "create"}
    broken_old = tuple[str, ...]()
    if old_texts:
        result = await runs.run(_revert(old_texts), seconds=seconds)
        broken = (end.test for end in result.record.failures if find_file(end.test, old_texts))
        broken_old = tuple(dict.fromkeys(broken))
    if not changed_tests:
        return OldAndNew(broken_old)
    result = await runs.run(_revert(code), tests=changed_tests, seconds=seconds)
    return _judge_new(result, changed_tests, broken_old)


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
