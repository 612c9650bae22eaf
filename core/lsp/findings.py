"""Diagnostics compared and told: which of them are new, which come first, and the lines that a model reads."""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from core.protocol.language import Diagnostic
from core.text.line_diff import diff_lines

MOST_TOLD: Final = 20
MOST_REPORTED: Final = 100
"""Findings of a file in its event, which is written with each edit that moves one: of more nobody reads each."""

_ORDER: Final = ("error", "warning", "information", "hint")
_LONGEST: Final = 300
Lines = Sequence[str]
Places = Mapping[int, range]


def find_new_diagnostics(
    now: Sequence[Diagnostic], before: Sequence[Diagnostic], now_lines: Lines = (), before_lines: Lines = ()
) -> list[Diagnostic]:
    """Return those of `now` that are not among `before`, in their order.

    Two are the same if message, code and line read alike. Of what is left over, they are if they say the same of a line
    that took the place of the other's: an old finding does not become new because its line was touched. Without the
    texts, what says the same is the same, the nearest lines first.
    """
    if not now_lines or not before_lines:
        return _drop_nearest(now, before, None)
    known = Counter(_build_key(each, before_lines) for each in before)
    fresh: list[Diagnostic] = []
    for each in now:
        key = _build_key(each, now_lines)
        if known[key]:
            known[key] -= 1
        else:
            fresh.append(each)
    left = [each for each in before if _take(known, _build_key(each, before_lines))]
    return _drop_nearest(fresh, left, _map_lines(before_lines, now_lines)) if fresh and left else fresh


def _drop_nearest(fresh: Sequence[Diagnostic], left: Iterable[Diagnostic], places: Places | None) -> list[Diagnostic]:
    """Return `fresh` without the nearest that says the same as each one left; `places`: only where its line is now."""
    alike: dict[tuple[str, str, str], list[tuple[int, int]]] = {}  # lines with indexes in `fresh`, in order
    for index, each in enumerate(fresh):
        alike.setdefault((each.path, each.code, each.message), []).append((each.line, index))
    for found in alike.values():
        found.sort()
    dropped = set[int]()
    for old in left:
        found = alike.get((old.path, old.code, old.message), [])
        allowed = range(sys.maxsize) if places is None else places.get(old.line, range(0))
        nearest = _find_nearest(found, old.line, allowed)
        if nearest is not None:
            dropped.add(found.pop(nearest)[1])
    return [each for index, each in enumerate(fresh) if index not in dropped]


def _find_nearest(found: Sequence[tuple[int, int]], line: int, allowed: range) -> int | None:
    """Return where the nearest to a line stands among sorted lines, the upper one of two; None: none is allowed."""
    first, end = bisect_left(found, (allowed.start, -1)), bisect_left(found, (allowed.stop, -1))
    below = min(max(bisect_left(found, (line, -1)), first), end)
    above = max(bisect_left(found, (found[below - 1][0], -1)), first) if below > first else below
    near = [each for each in dict.fromkeys((above, below)) if first <= each < end]
    return min(near, key=lambda each: abs(found[each][0] - line), default=None)


def cut_diagnostics(found: Sequence[Diagnostic]) -> tuple[tuple[Diagnostic, ...], int, int]:
    """Return as many as a file is reported with, and how many errors and warnings more there are."""
    rest = Counter(each.severity for each in found[MOST_REPORTED:])
    return tuple(found[:MOST_REPORTED]), rest["error"], rest["warning"]


def _build_key(found: Diagnostic, lines: Lines) -> tuple[str, str, str, str]:
    text = lines[found.line - 1].strip() if 0 < found.line <= len(lines) else ""
    return found.path, found.code, found.message, text


def _take(counted: Counter[tuple[str, str, str, str]], key: tuple[str, str, str, str]) -> bool:
    counted[key] -= 1
    return counted[key] >= 0


def _map_lines(before: Lines, now: Lines) -> Places:
    """Return which lines (1-indexed) took the place of each old line that is not there any more."""
    found: dict[int, range] = {}
    for tag, i1, i2, j1, j2 in diff_lines(before, now):
        if tag == "replace":
            found |= dict.fromkeys(range(i1 + 1, i2 + 1), range(j1 + 1, j2 + 1))
    return found


def sort_diagnostics(found: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return errors first, then by place; of two tools that mark the same place as an error the first one."""
    ordered = sorted(found, key=lambda each: (_ORDER.index(each.severity), each.path, each.line, each.column))
    kept: dict[tuple[object, ...], Diagnostic] = {}
    for each in ordered:
        place = (each.path, each.line, each.column, each.severity)
        kept.setdefault(place if each.severity == "error" else (*place, each.message), each)
    return list(kept.values())


def format_diagnostics(found: Sequence[Diagnostic]) -> list[str]:
    """Return a line for each, at most so many as a model is told."""
    rows = [f"  {format_diagnostic(each)}" for each in found[:MOST_TOLD]]
    return [*rows, f"  [... {len(found) - MOST_TOLD} more]"] if len(found) > MOST_TOLD else rows


def format_diagnostic(found: Diagnostic) -> str:
    """Return place, severity, message and code in one line."""
    place = f"{found.path}:{found.line}:{found.column}" if found.line else found.path
    code = f" [{found.code}]" if found.code else ""
    first = next((line for line in found.message.splitlines() if line.strip()), "")
    return f"{place}: {found.severity}: {' '.join(first.split())[:_LONGEST]}{code}"
