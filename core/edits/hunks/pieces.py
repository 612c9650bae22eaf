"""A draft as pieces: runs of its lines between markers, bound to the ends of the file where no marker stands.

`START` and `STOP` stand for the ends of the file (or of the range that is edited) as if they were lines of it, so that
an end is an anchor like any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from core.edits.lazy_keys import key_of
from core.edits.lazy_matches import BRANCH, PREFIX, continues, depth_of

START: Final = "\0start"
STOP: Final = "\0stop"
_STATEMENT: Final = re.compile(r"[\w.]+\(.*\);?$|export\b")


class Piece(NamedTuple):
    """Lines of a draft. `above`, `below`: a marker stands there."""

    rows: tuple[str, ...]
    above: bool
    below: bool


class Variant(NamedTuple):
    """One way to take a piece: its lines (with an end of the file, or without blank lines beside a marker) and what
    speaks against it."""

    rows: tuple[str, ...]
    cost: int


OPEN_END: Final = 6
PADDING: Final = 12  # blank lines beside a marker that are taken for its surroundings; where not all markers have them:
STRAY: Final = 60


def pieces_of(rows: Sequence[str], marked: Sequence[bool]) -> list[Piece]:
    """The pieces in order; blank ones between two markers are none."""
    pieces: list[Piece] = []
    run: list[str] = []
    above = False
    for row, mark in zip([*rows, ""], [*marked, True], strict=True):
        if not mark:
            run.append(row if row.strip() else "")
            continue
        if any(run):
            pieces.append(Piece(tuple(run), above, True))
        run, above = [], True
    if pieces and not any(marked[_last(rows, marked) + 1 :]):
        pieces[-1] = pieces[-1]._replace(below=False)
    return pieces


def _last(rows: Sequence[str], marked: Sequence[bool]) -> int:
    return max(index for index, row in enumerate(rows) if row.strip() and not marked[index])


def outlined(pieces: Sequence[Piece]) -> bool:
    """Whether every piece begins with something that has a name and holds the rest of it, or stands beside it."""
    return all(_begins(piece.rows) for piece in pieces)


def _begins(rows: Sequence[str]) -> bool:
    filled = [index for index, row in enumerate(rows) if row]
    if rows[filled[0]].lstrip().startswith("*"):
        return False
    first = next((index for index in filled if not PREFIX.match(rows[index].strip())), filled[0])
    head, depth = rows[first].strip(), depth_of(rows[first])
    named = any(key_of(row) is not None for row in (rows[filled[0]], head))
    if not named and not BRANCH.match(head) and (depth or not _STATEMENT.match(head)):
        return False
    return all(depth_of(rows[index]) >= depth or continues(rows, index) for index in filled)


def whole(pieces: Sequence[Piece]) -> bool:
    """Whether every piece also ends where what it begins with does, as far as a closing line or a blank one tells."""
    return outlined(pieces) and all(_ends(piece) for piece in pieces)


def _ends(piece: Piece) -> bool:
    filled = [row for row in piece.rows if row]
    closed = continues(filled, len(filled) - 1) and depth_of(filled[-1]) <= depth_of(filled[0])
    return closed or not piece.rows[-1] or not piece.below


def single(rows: Sequence[str]) -> bool:
    """Whether all lines lie in one thing, which the first of the least depth opens and others may only close."""
    filled = [row for row in rows if row.strip()]
    least = min(map(depth_of, filled), default=0)
    tops = [index for index, row in enumerate(filled) if depth_of(row) == least]
    return sum(not continues(filled, index) and not PREFIX.match(filled[index].strip()) for index in tops) == 1


def spaced(pieces: Sequence[Piece]) -> bool:
    """Whether blank lines stand between every marker and what is next to it."""
    edges = [piece.rows[place] for piece in pieces for place, marked in ((0, piece.above), (-1, piece.below)) if marked]
    return len(edges) > 1 and not any(edges)


def variants(piece: Piece, *, open_ends: bool, padded: bool) -> Iterator[Variant]:
    """`open_ends`: what stands in the file before or after the draft may be kept without a marker that says so;
    `padded`: blank lines beside markers may be there for looks."""
    price = PADDING if padded else STRAY
    for head, lead in _edges(piece, piece.above, START, open_ends=open_ends, price=price):
        for tail, trail in _edges(piece, piece.below, STOP, open_ends=open_ends, price=price):
            rows = list(piece.rows)
            if head == "":
                rows = rows[next(index for index, row in enumerate(rows) if row) :]
            if tail == "":
                rows = rows[: max(index for index, row in enumerate(rows) if row) + 1]
            rows = [*([START] if head == START else []), *rows, *([STOP] if tail == STOP else [])]
            yield Variant(tuple(rows), lead + trail)


def _edges(piece: Piece, marked: bool, end: str, *, open_ends: bool, price: int) -> Iterator[tuple[str | None, int]]:
    """How one edge can be taken: as it is (None), without the blank lines there (""), or as an end of the file."""
    edge = piece.rows[0] if end == START else piece.rows[-1]
    if marked:
        yield None, 0
        if not edge:
            yield "", price
    else:
        yield end, 0
        if open_ends:
            yield None, OPEN_END
            if not edge:
                yield "", price
