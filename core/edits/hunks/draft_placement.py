"""The one placement of a draft as pieces of a file, over all that its lines may mean.

A line that looks like a marker and stands in the file, or is no comment, may be either; all ways to take such lines
are compared.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations, product
from math import prod
from typing import Final

from core.edits.hunks.placed_draft import PlacedDraft, describe_unplaced, place_pieces
from core.edits.hunks.placements import TooManyPlacements
from core.edits.lazy.draft_indentation import fit_indentation
from core.edits.lazy.markers import is_marker, may_be_marker, may_be_remark
from core.text.lines import TextLines

_SAID: Final = 100  # what speaks against a line of text that says that something stays
_APART: Final = 100  # how much worse another meaning of such lines has to be
_SHIFTED: Final = 30  # how much better a draft has to fit in another indentation
_MOST_MEANINGS: Final = 16


def place_draft(lines: TextLines, rows: Sequence[str], *, open_ends: bool) -> PlacedDraft | None:
    """Place a draft on the file; None when it is not made of pieces of the file."""
    shifted_rows = fit_indentation(rows, lines)
    try:
        asis = _choose_best(lines, rows, open_ends)
        other = None if shifted_rows == list(rows) else _choose_best(lines, shifted_rows, open_ends)
    except TooManyPlacements:
        return describe_unplaced(rows, _flag_markers(rows))
    if asis is None or other is None or other.cost + _SHIFTED >= asis.cost:
        return asis or other
    if not asis.is_accepted or not _has_same_indent_signs(rows, lines):
        return other
    exact = any(row[:1].isspace() and row in lines.bodies for row in rows if row.strip())
    return asis if exact else other._replace(is_sure=False, is_contested=True, is_outlined=False)


def _has_same_indent_signs(rows: Sequence[str], lines: TextLines) -> bool:
    draft_signs, file_signs = (
        {row[0] for row in side if row[:1] in (" ", "\t") and row.strip()} for side in (rows, lines.bodies)
    )
    return not draft_signs.isdisjoint(file_signs)


def _choose_best(lines: TextLines, rows: Sequence[str], open_ends: bool) -> PlacedDraft | None:
    line_counts = Counter(line.rstrip() for line in lines.bodies)
    drafts = []
    for marker_flags in _iterate_meanings(rows, line_counts):
        draft = place_pieces(lines, rows, marker_flags, open_ends=open_ends)
        unmarked_rows = [row for row, mark in zip(rows, marker_flags, strict=True) if not mark]
        suspect_count = sum(may_be_marker(row) and row.rstrip() not in line_counts for row in unmarked_rows)
        drafts += [draft._replace(cost=draft.cost + _SAID * suspect_count)] if draft else []
    best = min(drafts, key=lambda candidate: candidate.cost, default=None)
    if best is not None and any(
        candidate.text != best.text and candidate.cost < best.cost + _APART for candidate in drafts
    ):
        return best._replace(is_sure=False, is_contested=True)
    return best


def _iterate_meanings(rows: Sequence[str], line_counts: Counter[str]) -> Iterator[list[bool]]:
    """Yield which lines are markers, in every way that there is: the file has each of its lines so often as it has
    it, and words that it has nowhere mean the same wherever they stand. Raises `TooManyPlacements`."""
    markers = _flag_markers(rows)
    places: dict[str, list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        if markers[index] and (row.rstrip() in line_counts or may_be_marker(row) or may_be_remark(row)):
            places[row.rstrip()].append(index)
    ways = [
        [
            combination
            for size in range(min(line_counts[text], len(indexes)) + 1)
            for combination in combinations(indexes, size)
        ]
        if text in line_counts
        else [(), tuple(indexes)]
        for text, indexes in places.items()
    ]
    if prod(map(len, ways)) > _MOST_MEANINGS:
        raise TooManyPlacements
    for selection in product(*ways):
        lines = {index for combination in selection for index in combination}
        yield [mark and index not in lines for index, mark in enumerate(markers)]


def _flag_markers(rows: Sequence[str]) -> list[bool]:
    return [is_marker(row) or may_be_marker(row) for row in rows]
