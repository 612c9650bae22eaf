"""The one reading of a draft as pieces of a file, over all that its lines may mean.

A line that looks like a marker and stands in the file, or is no comment, may be either; all ways to take such lines are
compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final

from core.edits.hunks.readings import TooLong
from core.edits.hunks.splice import Spliced, laid_hunks, unlaid
from core.edits.lazy_indents import fitted
from core.edits.lazy_markers import is_marker, may_be_marker
from core.edits.lines import Lines

_SAID: Final = 100  # what speaks against a line of text that says that something stays
_APART: Final = 100  # how much worse another meaning of such lines has to be
_SHIFTED: Final = 30  # how much better a draft has to fit in another indentation
_MOST_OWN: Final = 4  # lines that may be markers or lines of the file


def lay(lines: Lines, rows: Sequence[str], *, open_ends: bool) -> Spliced | None:
    """The text after the draft, and whether that is sure; None when it is not made of pieces of the file."""
    shifted = fitted(rows, lines)
    try:
        found = [_best(lines, each, open_ends) for each in ([rows] if shifted == list(rows) else [rows, shifted])]
    except TooLong:
        return unlaid(rows, next(_meanings(rows, {line.strip() for line in lines.bodies})))
    asis, *others = found
    if asis is None or any(each is not None and each.cost + _SHIFTED < asis.cost for each in others):
        return others[0] if others else None
    return asis


def _best(lines: Lines, rows: Sequence[str], open_ends: bool) -> Spliced | None:
    own = {line.strip() for line in lines.bodies}
    found = []
    for marked in _meanings(rows, own):
        made = laid_hunks(lines, rows, marked, open_ends=open_ends)
        said = sum(
            may_be_marker(row) and not mark and row.strip() not in own for row, mark in zip(rows, marked, strict=True)
        )
        found += [made._replace(cost=made.cost + _SAID * said)] if made else []
    laid = sorted(found, key=lambda each: each.cost)
    if not laid:
        return None
    rivals = [each for each in laid if each.text != laid[0].text and each.cost < laid[0].cost + _APART]
    return laid[0]._replace(sure=laid[0].sure and not rivals)


def _meanings(rows: Sequence[str], own: set[str]) -> Iterator[list[bool]]:
    """Which lines are markers, in every way that there is."""
    markers = [is_marker(row) or may_be_marker(row) for row in rows]
    open_ones = [
        index for index, row in enumerate(rows) if markers[index] and (row.strip() in own or may_be_marker(row))
    ]
    if len(open_ones) > _MOST_OWN:
        open_ones = []
    for choice in product((False, True), repeat=len(open_ones)):
        meaning = list(markers)
        for index, mark in zip(open_ones, choice, strict=True):
            meaning[index] = mark
        yield meaning
