"""The words by which a check is told beside a file, in one place for every front end.

A run of tests does not say over which files it ran. So a file is never called tested: its tests *passed since* its last
change. The other kinds are told without that word only where the command named what it looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from core.protocol.review import Change, Check, CheckKind, is_prose


class CheckWords(NamedTuple):
    """The words for a check that passed: `mark` in a list, `sentence` before its command."""

    mark: str
    sentence: str


NO_CHECK: Final = "no check since"
FAILING: Final = "failing"
CHANGED_MARK: Final = "passed by changed tests"
_CHANGED: Final = "by tests or settings changed here"
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
    if check.kind != "tests" and not check.paths:  # whether it looked at this very file is not known
        mark, sentence = f"{mark} since", sentence.replace(mark, f"{mark} since", 1)
    return CheckWords(CHANGED_MARK if check.changed_here else mark, sentence)


def describe_changed_judge(check: Check, name: str) -> str:
    """Return that the result was decided by files of the same change, one of which is `name`."""
    return f"{_CHANGED} ({name})" if check.changed_here else ""


def can_be_marked(change: Change) -> bool:
    """True if a check can say something of a change: of prose none can, unless it named the file."""
    if not is_prose(change.path):
        return True
    return change.check is not None and change.check.covers(change.path)
