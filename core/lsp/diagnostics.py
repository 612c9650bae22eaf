"""Comparison and formatting of diagnostics: which are new, in which order, and the lines for the model."""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from core.protocol.language import Diagnostic
from core.text.lines import diff_lines

MAX_SHOWN: Final = 20
MAX_REPORTED: Final = 100
"""Diagnostics per file in an event, which is written again with every edit that moves one."""

_ORDER: Final = ("error", "warning", "information", "hint")
_MAX_LINE: Final = 300
Lines = Sequence[str]
Places = Mapping[int, range]


def find_new_diagnostics(
    now: Sequence[Diagnostic], before: Sequence[Diagnostic], now_lines: Lines = (), before_lines: Lines = ()
) -> list[Diagnostic]:
    """Return the diagnostics of `now` that are not among `before`, in order.

    Two are the same if message, code and text of the line are equal. The rest is compared again by message and code
    with the lines that replaced the old line, so that an old diagnostic is not new because its line was edited. Without
    the texts, equal messages match, nearest lines first.
    """
    if not now_lines or not before_lines:
        return _drop_nearest(now, before, None)
    counts = Counter(_build_key(diagnostic, before_lines) for diagnostic in before)
    fresh: list[Diagnostic] = []
    for diagnostic in now:
        key = _build_key(diagnostic, now_lines)
        if counts[key]:
            counts[key] -= 1
        else:
            fresh.append(diagnostic)
    remaining = [diagnostic for diagnostic in before if _take(counts, _build_key(diagnostic, before_lines))]
    return _drop_nearest(fresh, remaining, _map_lines(before_lines, now_lines)) if fresh and remaining else fresh


def _drop_nearest(
    fresh: Sequence[Diagnostic], remaining: Iterable[Diagnostic], places: Places | None
) -> list[Diagnostic]:
    """Return `fresh` without the nearest equal diagnostic of every remaining old one; `places`: allowed lines by old
    line."""
    candidates_by_key: dict[tuple[str, str, str], list[tuple[int, int]]] = {}  # lines with indexes in `fresh`, in order
    for index, diagnostic in enumerate(fresh):
        candidates_by_key.setdefault((diagnostic.path, diagnostic.code, diagnostic.message), []).append(
            (diagnostic.line, index)
        )
    for candidates in candidates_by_key.values():
        candidates.sort()
    dropped_indexes = set[int]()
    for old in remaining:
        candidates = candidates_by_key.get((old.path, old.code, old.message), [])
        allowed_lines = range(sys.maxsize) if places is None else places.get(old.line, range(0))
        nearest = _find_nearest(candidates, old.line, allowed_lines)
        if nearest is not None:
            dropped_indexes.add(candidates.pop(nearest)[1])
    return [diagnostic for index, diagnostic in enumerate(fresh) if index not in dropped_indexes]


def _find_nearest(candidates: Sequence[tuple[int, int]], line: int, allowed_lines: range) -> int | None:
    """Return the index of the candidate nearest to a line, the upper one of two; None: none is in `allowed_lines`."""
    first, end = bisect_left(candidates, (allowed_lines.start, -1)), bisect_left(candidates, (allowed_lines.stop, -1))
    below = min(max(bisect_left(candidates, (line, -1)), first), end)
    above = max(bisect_left(candidates, (candidates[below - 1][0], -1)), first) if below > first else below
    neighbors = [index for index in dict.fromkeys((above, below)) if first <= index < end]
    return min(neighbors, key=lambda index: abs(candidates[index][0] - line), default=None)


def cut_diagnostics(diagnostics: Sequence[Diagnostic]) -> tuple[tuple[Diagnostic, ...], int, int]:
    """Return the diagnostics to report of a file, and the numbers of further errors and warnings."""
    rest = Counter(diagnostic.severity for diagnostic in diagnostics[MAX_REPORTED:])
    return tuple(diagnostics[:MAX_REPORTED]), rest["error"], rest["warning"]


def _build_key(diagnostic: Diagnostic, lines: Lines) -> tuple[str, str, str, str]:
    text = lines[diagnostic.line - 1].strip() if 0 < diagnostic.line <= len(lines) else ""
    return diagnostic.path, diagnostic.code, diagnostic.message, text


def _take(counts: Counter[tuple[str, str, str, str]], key: tuple[str, str, str, str]) -> bool:
    counts[key] -= 1
    return counts[key] >= 0


def _map_lines(before: Lines, now: Lines) -> Places:
    """Map the lines (1-indexed) that are gone to the ranges of lines that replaced them."""
    ranges: dict[int, range] = {}
    for tag, i1, i2, j1, j2 in diff_lines(before, now):
        if tag == "replace":
            ranges |= dict.fromkeys(range(i1 + 1, i2 + 1), range(j1 + 1, j2 + 1))
    return ranges


def sort_diagnostics(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return errors first, then by location; of several errors at one location only the first."""
    sorted_diagnostics = sorted(
        diagnostics,
        key=lambda diagnostic: (_ORDER.index(diagnostic.severity), diagnostic.path, diagnostic.line, diagnostic.column),
    )
    diagnostics_by_key: dict[tuple[object, ...], Diagnostic] = {}
    for diagnostic in sorted_diagnostics:
        location = (diagnostic.path, diagnostic.line, diagnostic.column, diagnostic.severity)
        diagnostics_by_key.setdefault(
            location if diagnostic.severity == "error" else (*location, diagnostic.message), diagnostic
        )
    return list(diagnostics_by_key.values())


def format_diagnostics(diagnostics: Sequence[Diagnostic]) -> list[str]:
    """Return a line per diagnostic, up to `MAX_SHOWN`."""
    rows = [f"  {format_diagnostic(diagnostic)}" for diagnostic in diagnostics[:MAX_SHOWN]]
    return [*rows, f"  [... {len(diagnostics) - MAX_SHOWN} more]"] if len(diagnostics) > MAX_SHOWN else rows


def format_diagnostic(diagnostic: Diagnostic) -> str:
    """Return location, severity, message and code in one line."""
    location = f"{diagnostic.path}:{diagnostic.line}:{diagnostic.column}" if diagnostic.line else diagnostic.path
    code = f" [{diagnostic.code}]" if diagnostic.code else ""
    first = next((line for line in diagnostic.message.splitlines() if line.strip()), "")
    return f"{location}: {diagnostic.severity}: {' '.join(first.split())[:_MAX_LINE]}{code}"
