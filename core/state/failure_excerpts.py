"""The lines of a failed check's output that say what failed: the failing tests by name, else its last lines.

Rules and headings that runners draw (`=== FAILURES ===`) say nothing, and counts are shown beside the command.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from core.patterns import compile_lazily

MAX_LINES: Final = 3
MIN_REASON: Final = 8  # characters of a reason that say anything
_READ: Final = 60_000  # characters at the end of an output
_ESCAPES: Final = compile_lazily(r"\x1b\[[0-9;?]*[A-Za-z]")
# `=====`, `----- Captured stdout -----`, `____ test_name ____`, `=== 1 failed in 0.1s ===`
_RULE: Final = compile_lazily(r"^\s*([=_*#~─━⎯-])\1{2,}(?:.*\1{3,})?\s*$")
# pytest, unittest, go, cargo, TAP; jest and vitest mark a name, mocha numbers it.
_NAMED: Final = compile_lazily(
    r"^\s*(?:(?:FAILED|ERROR|FAIL|ERROR:|FAIL:|--- FAIL:|not ok) +\S|[✕✗✘×●] \S|test \S+ \.\.\. FAILED$)"
)
# In pytest's output: a failing test where the summary is left out, and why one failed.
_HEADING: Final = compile_lazily(r"^_+ (\S+) _+$", re.MULTILINE)
_REASON: Final = "E  "


def list_failure_lines(output: str, most: int = MAX_LINES) -> tuple[str, ...]:
    """Return at most so many lines of an output, in its order; a last one counts further failing tests."""
    lines = list(dict.fromkeys(_iter_telling_lines(output[-_READ:])))
    named_lines = [line for line in lines if names_test(line)]
    if not named_lines:
        headings = [f"FAILED {match[1]}" for match in _HEADING.finditer(output[-_READ:])]
        reasons = [line for line in lines if line.startswith(_REASON)]
        return (*headings[:1], *reasons[1 - most :]) if headings else tuple(lines[-most:])
    if len(named_lines) > most:
        return (*named_lines[: most - 1], f"… {len(named_lines) - most + 1:,} more")
    has_reason = any(" - " in line for line in named_lines)
    room = 0 if has_reason else most - len(named_lines)
    reasons = [line for line in lines if line.startswith(_REASON)][:room]
    return tuple(line for line in lines if line in named_lines or line in reasons)


def names_test(line: str) -> bool:
    """Return True if a line of an excerpt names a failing test."""
    return _NAMED.match(line) is not None


def fit_failure_line(line: str, width: int) -> str:
    """Return a line in `width` characters, if that is enough: the reason behind a test's name gives way first, then
    the directories before it, and the name never."""
    if len(line) <= width:
        return line
    if not names_test(line):
        return f"{line[: max(width - 1, 0)]}…"
    head, dash, reason = line.partition(" - ")
    room = width - len(head) - len(dash) - 1
    if dash and room >= MIN_REASON:
        return f"{head}{dash}{reason[:room].rstrip()}…"
    word, _, name = head.partition(" ")
    path, colons, test = name.partition("::")
    directory, slash, file = path.rpartition("/")
    return f"{word} …/{file}{colons}{test}" if len(head) > width and slash and directory else head


def _iter_telling_lines(output: str) -> Iterator[str]:
    for raw_line in _ESCAPES.sub("", output).splitlines():
        if raw_line.strip() and not _RULE.match(raw_line):
            yield raw_line.rstrip()
