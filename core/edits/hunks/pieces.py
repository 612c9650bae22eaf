"""A draft as pieces: runs of its lines between markers, bound to the ends of the file where no marker stands.

`START` and `STOP` stand for the ends of the file (or of the range that is edited) as if they were lines of it, so
that an end is an anchor like any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from core.edits.indentation import measure_depth
from core.edits.lazy.line_keys import parse_line_key
from core.edits.lazy.line_matches import BRANCH, PREFIX, is_continuation

START: Final = "\0start"
STOP: Final = "\0stop"
_STATEMENT: Final = re.compile(r"[\w.]+\(.*\);?$|export\b")


class DraftPiece(NamedTuple):
    """Lines of a draft between two markers, or an end of the draft."""

    rows: tuple[str, ...]
    has_marker_above: bool
    has_marker_below: bool


class PieceVariant(NamedTuple):
    """One way to take a piece, and its cost: its lines with an end of the file, or without blanks beside a marker."""

    rows: tuple[str, ...]
    cost: int


OPEN_END: Final = 6
PADDING: Final = 12  # blank lines beside a marker that are taken for its surroundings; where not all markers have them:
STRAY: Final = 60


def split_pieces(rows: Sequence[str], marked: Sequence[bool]) -> list[DraftPiece]:
    """Split a draft into its pieces, in order; blank ones between two markers are none."""
    pieces: list[DraftPiece] = []
    run: list[str] = []
    above = False
    for row, mark in zip([*rows, ""], [*marked, True], strict=True):
        if not mark:
            run.append(row if row.strip() else "")
            continue
        if any(run):
            pieces.append(DraftPiece(tuple(run), above, True))
        run, above = [], True
    last = max((index for index, row in enumerate(rows) if row.strip() and not marked[index]), default=0)
    if pieces and not any(marked[last + 1 :]):
        pieces[-1] = pieces[-1]._replace(has_marker_below=False)
    return pieces


def are_in_file(pieces: Sequence[DraftPiece], lines: Sequence[str]) -> bool:
    """Return True if a file has all pieces to the letter, in order, but for blank lines: nothing is new in them."""
    own, start = [line for line in lines if line], 0
    for piece in pieces:
        rows = [row.rstrip() for row in piece.rows if row]
        places = (at for at in range(start, len(own) - len(rows) + 1) if own[at : at + len(rows)] == rows)
        if (place := next(places, None)) is None:
            return False
        start = place + len(rows)
    return True


def is_outlined(pieces: Sequence[DraftPiece]) -> bool:
    """True if every piece begins with something that has a name and holds the rest of it, or stands beside it."""
    return all(_begins_with_name(piece.rows) for piece in pieces)


def _begins_with_name(rows: Sequence[str]) -> bool:
    filled = [index for index, row in enumerate(rows) if row]
    if rows[filled[0]].lstrip().startswith("*"):
        return False
    first = next((index for index in filled if not PREFIX.match(rows[index].strip())), filled[0])
    head, depth = rows[first].strip(), measure_depth(rows[first])
    named = any(parse_line_key(row) is not None for row in (rows[filled[0]], head))
    if not named and not BRANCH.match(head) and (depth or not _STATEMENT.match(head)):
        return False
    return all(measure_depth(rows[index]) >= depth or is_continuation(rows, index) for index in filled)


def is_whole(pieces: Sequence[DraftPiece]) -> bool:
    """True if every piece also ends where what it begins with does, as far as a closing line or a blank one tells."""
    return is_outlined(pieces) and all(_ends_with_start(piece) for piece in pieces)


def _ends_with_start(piece: DraftPiece) -> bool:
    filled = [row for row in piece.rows if row]
    closed = is_continuation(filled, len(filled) - 1) and measure_depth(filled[-1]) <= measure_depth(filled[0])
    return closed or not piece.rows[-1] or not piece.has_marker_below


def is_single(rows: Sequence[str]) -> bool:
    """True if all lines lie in one thing, which the first of the least depth opens and others may only close."""
    filled = [row for row in rows if row.strip()]
    least = min(map(measure_depth, filled), default=0)
    tops = [index for index, row in enumerate(filled) if measure_depth(row) == least]
    return sum(not is_continuation(filled, index) and not PREFIX.match(filled[index].strip()) for index in tops) == 1


def is_spaced(pieces: Sequence[DraftPiece]) -> bool:
    """True if blank lines stand between every marker and what is next to it."""
    edges = [piece.rows[0] for piece in pieces if piece.has_marker_above]
    edges += [piece.rows[-1] for piece in pieces if piece.has_marker_below]
    return len(edges) > 1 and not any(edges)


def iterate_variants(piece: DraftPiece, *, open_ends: bool, padded: bool) -> Iterator[PieceVariant]:
    """Yield the ways to take a piece. `open_ends`: what is outside of the draft may stay without a marker; `padded`:
    blank lines beside markers may be there for looks."""
    price = PADDING if padded else STRAY
    for head, lead in _iterate_edges(piece, piece.has_marker_above, START, open_ends=open_ends, price=price):
        for tail, trail in _iterate_edges(piece, piece.has_marker_below, STOP, open_ends=open_ends, price=price):
            filled = [index for index, row in enumerate(piece.rows) if row]
            rows = piece.rows[filled[0] if head == "" else 0 : filled[-1] + 1 if tail == "" else None]
            ends = ((START,) if head == START else (), (STOP,) if tail == STOP else ())
            yield PieceVariant((*ends[0], *rows, *ends[1]), lead + trail)


def _iterate_edges(
    piece: DraftPiece, marked: bool, end: str, *, open_ends: bool, price: int
) -> Iterator[tuple[str | None, int]]:
    """Yield how an edge can be taken: as it is (None), without the blank lines there (""), or as an end of the file."""
    if not marked:
        yield end, 0
    if marked or open_ends:
        yield None, 0 if marked else OPEN_END
        if not (piece.rows[0] if end == START else piece.rows[-1]):
            yield "", price
