"""A command that is one check and nothing else: what may be run again by the program, and count by its exit code.

Nothing that a shell would do beside starting the one program is let through, no variable that is set for it, no path
out of the project, and no option by which a runner only lists, ignores failures, or reads other settings.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from posixpath import basename
from typing import Final

from core.shell.check_detection import CheckResult, detect_checks

_SHELL_SIGNS: Final = re.compile(r"[;&|\n`(){}<>$\\*?!#~\0]")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*\+?=")
_EMPTY_OPTIONS_TEXT: Final = """
    --co --collect-only --markers --fixtures --fixtures-per-test --funcargs --setup-plan --setup-only
    --setup-show --version --help -h -V --dry-run --list --list-tests --listTests --passWithNoTests
    --pass-with-no-tests --if-present --exit-zero --no-run --show-config --showConfig --env-info --cache-show
    --noconftest --override-ini --rootdir --confcutdir --allow-empty --no-tests-pass --ignore-errors --touch
    --just-print --recon --question"""
_EMPTY_OPTIONS: Final = frozenset(_EMPTY_OPTIONS_TEXT.split())
_PYTEST_SETTINGS: Final = ("-o", "-p", "-c")  # may be written together with their value
_MAKERS: Final = frozenset({"make", "gmake", "ninja", "just"})
_EMPTY_LETTERS: Final = frozenset("intq")  # of make: ignore, print, touch, ask


def parse_check(command: str, patterns: Sequence[str] = ()) -> CheckResult | None:
    """Return what a command proves that is one check and nothing else; None = it is not. `patterns`: more of them, of
    which one that is the whole command is taken as it is written."""
    found = detect_checks(command, 0, extra=patterns)
    if command in patterns:
        return found or CheckResult(exit_code=0)
    if found is None:
        return None
    if _SHELL_SIGNS.search(command.replace("[", "").replace("]", "")):
        return None
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    return found if words and _is_plain(words) else None


def _is_plain(words: Sequence[str]) -> bool:
    program = basename(words[0])
    if _ASSIGNMENT.match(words[0]) or program in {"env", "exec", "command", "time", "nice", "eval", "trap"}:
        return False
    if any(word.partition("=")[0] in _EMPTY_OPTIONS or _leads_out(word) for word in words):
        return False
    if program in _MAKERS:
        return not any(_is_idle_make_word(word) for word in words[1:])
    is_pytest = any(basename(word) in {"pytest", "py.test"} for word in words[:3])
    return not (is_pytest and any(word.startswith(_PYTEST_SETTINGS) for word in words[1:]))


def _leads_out(word: str) -> bool:
    path = word.rpartition("=")[2]
    return path.startswith("/") or ".." in path.split("/")


def _is_idle_make_word(word: str) -> bool:
    """True for a word by which `make` does not do what its recipes say, or does not end as they do."""
    if _ASSIGNMENT.match(word):
        return True
    return word.startswith("-") and not word.startswith("--") and not _EMPTY_LETTERS.isdisjoint(word[1:])
