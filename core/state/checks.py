"""Checks: the counts of a test runner in its output, and the words for a check next to a file, for all front ends.

A run of tests does not tell over which files it ran. So a file is never called tested: its tests *passed since* its
last change. The other kinds do without that word only where the command named the files that it looked at.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from core.patterns import compile_lazily
from core.protocol.review import Change, Check, CheckKind, is_prose

_TAIL: Final = 6_000  # In characters: a summary is at the end.
_TALKING: Final = compile_lazily(r"\b(?:make|doctest)\b")
_ESCAPES: Final = compile_lazily(r"\x1b\[[0-9;]*m")
# pytest: `== 2 failed, 10 passed, 1 skipped in 3.1s ==`. Jest, Vitest: `Tests:  1 failed | 12 passed (13)`.
_COUNTED_LINE: Final = compile_lazily(
    r"^(?:=+ |\s*Tests:?\s+)?((?:\d+ [a-z]+(?:, | \| )?)+)(?: in [\d.]+ ?s.*| \(\d+\))?(?: =+)?$"
)
_COUNT: Final = compile_lazily(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed|todo)\b")
_CARGO: Final = compile_lazily(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", re.MULTILINE)
_UNITTEST: Final = compile_lazily(r"^Ran (\d+) tests? in .*\n+(?:OK|FAILED|NO TESTS RAN)(?: \((.*)\))?$", re.MULTILINE)
_UNITTEST_PART: Final = compile_lazily(r"(failures|errors|skipped)=(\d+)")
_MOCHA: Final = compile_lazily(r"^\s*(\d+) (passing|failing|pending)\b", re.MULTILINE)
_TAP: Final = compile_lazily(r"^[#ℹ] (pass|fail|skipped) (\d+)$", re.MULTILINE)
_CTEST: Final = compile_lazily(r"^\d+% tests passed, (\d+) tests? failed out of (\d+)", re.MULTILINE)
_FIELDS: Final = {
    "passed": "passed", "xpassed": "passed", "passing": "passed", "pass": "passed",
    "failed": "failed", "error": "failed", "errors": "failed", "failing": "failed", "fail": "failed",
    "failures": "failed",
    "skipped": "skipped", "xfailed": "skipped", "pending": "skipped", "todo": "skipped",
}  # fmt: skip


class CheckWords(NamedTuple):
    """The words for a check that passed: `mark` in a list, `sentence` before its command."""

    mark: str
    sentence: str


NO_CHECK: Final = "no check since"


FAILING: Final = "failing"


CHANGED_MARK: Final = "passed by changed tests"


_CHANGED: Final = "with tests or settings changed here"


_PASSED: Final[Mapping[CheckKind, CheckWords]] = {
    "tests": CheckWords("passed", "tests passed since"),
    "types": CheckWords("types checked", "types checked"),
    "build": CheckWords("built", "built, not tested"),
    "lint": CheckWords("linted", "linted, not tested"),
    "syntax": CheckWords("compiled", "compiled, not tested"),
    "check": CheckWords("checked", "checked"),
}


def get_check_words(check: Check) -> CheckWords:
    """Return the words of a check that passed."""
    mark, sentence = _PASSED[check.kind]
    if check.kind != "tests" and not check.paths:  # It is unknown if it looked at this very file.
        mark, sentence = f"{mark} since", sentence.replace(mark, f"{mark} since", 1)
    return CheckWords(CHANGED_MARK if check.changed_here else mark, sentence)


def describe_changed_tests(check: Check, name: str) -> str:
    """Return a note that files of the same change decided the result, one of which is `name`."""
    return f"{_CHANGED} ({name})" if check.changed_here else ""


def can_be_marked(change: Change) -> bool:
    """Return True if a check can apply to a change: to prose only if it named the file."""
    if not is_prose(change.path):
        return True
    return change.check is not None and change.check.covers(change.path)


class CountedTests(NamedTuple):
    """The numbers of tests of one run."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def format(self) -> str:
        """Format as `2 failed, 10 passed`; skipped ones only if there are no others."""
        counts = [(self.failed, "failed"), (self.passed, "passed")]
        if not self.failed + self.passed:
            counts = [(self.skipped, "skipped")]
        return ", ".join(f"{number:,} {word}" for number, word in counts if number)


def find_run_counts(output: str, exit_code: int) -> CountedTests | None:
    """Return the counts of a run; None also if its exit code contradicts them, since something else printed them."""
    counts = find_test_counts(output)
    return None if counts is not None and exit_code and not counts.failed else counts


def is_silent_run(command: str, output: str) -> bool:
    """Return True if a command that reports its runs has printed nothing, so that it ran nothing."""
    return not output.strip() and _TALKING.search(command) is not None


def find_test_counts(output: str) -> CountedTests | None:
    """Return the counts of the last test runner in an output; None: there is none."""
    text = _ESCAPES.sub("", output[-_TAIL:]).replace("\r", "")
    matches: list[tuple[str, str]]
    if cargo := _CARGO.findall(text):  # One line for every binary of a crate.
        return CountedTests(*(sum(map(int, column)) for column in zip(*cargo, strict=True)))
    if ctest := _CTEST.search(text):
        failed_count, total = int(ctest[1]), int(ctest[2])
        return CountedTests(total - failed_count, failed_count)
    if unittest := _UNITTEST.search(text):
        parts = _add_up([(word, number) for word, number in _UNITTEST_PART.findall(unittest[2] or "")])
        return CountedTests(int(unittest[1]) - parts.failed - parts.skipped, parts.failed, parts.skipped)
    for line in reversed(text.splitlines()):
        if (match := _COUNTED_LINE.match(line.strip())) and (matches := _COUNT.findall(match[1])):
            return _add_up([(word, number) for number, word in matches])
    if matches := _MOCHA.findall(text):
        return _add_up([(word, number) for number, word in matches])
    return _add_up(matches) if (matches := _TAP.findall(text)) else None


def _add_up(parts: list[tuple[str, str]]) -> CountedTests:
    sums = dict.fromkeys(CountedTests._fields, 0)
    for word, number in parts:
        sums[_FIELDS[word]] += int(number)
    return CountedTests(**sums)
