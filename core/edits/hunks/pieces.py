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


def split_pieces(rows: Sequence[str], marker_flags: Sequence[bool]) -> list[DraftPiece]:
    """Split a draft into its pieces, in order; blank ones between two markers are none."""
    pieces: list[DraftPiece] = []
    run: list[str] = []
    above = False
    for row, mark in zip([*rows, ""], [*marker_flags, True], strict=True):
        if not mark:
            run.append(row if row.strip() else "")
            continue
        if any(run):
            pieces.append(DraftPiece(tuple(run), above, True))
        run, above = [], True
    last = max((index for index, row in enumerate(rows) if row.strip() and not marker_flags[index]), default=0)
    if pieces and not any(marker_flags[last + 1 :]):
        pieces[-1] = pieces[-1]._replace(has_marker_below=False)
    return pieces


def are_in_file(pieces: Sequence[DraftPiece], lines: Sequence[str]) -> bool:
    """Return True if a file has all pieces to the letter, in order, but for blank lines: nothing is new in them."""
    nonblank_lines, start = [line for line in lines if line], 0
    for piece in pieces:
        rows = [row.rstrip() for row in piece.rows if row]
        places = (
            index
            for index in range(start, len(nonblank_lines) - len(rows) + 1)
            if nonblank_lines[index : index + len(rows)] == rows
        )
        if (position := next(places, None)) is None:
            return False
        start = position + len(rows)
    return True


def is_outlined(pieces: Sequence[DraftPiece]) -> bool:
    """True if every piece begins with something that has a name and holds the rest of it, or stands beside it."""
    return all(_begins_with_name(piece.rows) for piece in pieces)


def _begins_with_name(rows: Sequence[str]) -> bool:
    nonblank_indexes = [index for index, row in enumerate(rows) if row]
    if rows[nonblank_indexes[0]].lstrip().startswith("*"):
        return False
    first = next((index for index in nonblank_indexes if not PREFIX.match(rows[index].strip())), nonblank_indexes[0])
    head, depth = rows[first].strip(), measure_depth(rows[first])
    has_name = any(parse_line_key(row) is not None for row in (rows[nonblank_indexes[0]], head))
    if not has_name and not BRANCH.match(head) and (depth or not _STATEMENT.match(head)):
        return False
    return all(measure_depth(rows[index]) >= depth or is_continuation(rows, index) for index in nonblank_indexes)


def is_whole(pieces: Sequence[DraftPiece]) -> bool:
    """True if every piece also ends where what it begins with does, as far as a closing line or a blank one tells."""
    return is_outlined(pieces) and all(_ends_with_start(piece) for piece in pieces)


def _ends_with_start(piece: DraftPiece) -> bool:
    nonblank_rows = [row for row in piece.rows if row]
    is_closed = is_continuation(nonblank_rows, len(nonblank_rows) - 1) and measure_depth(
        nonblank_rows[-1]
    ) <= measure_depth(nonblank_rows[0])
    return is_closed or not piece.rows[-1] or not piece.has_marker_below


def is_single(rows: Sequence[str]) -> bool:
    """True if all lines lie in one thing, which the first of the least depth opens and others may only close."""
    nonblank_rows = [row for row in rows if row.strip()]
    min_depth = min(map(measure_depth, nonblank_rows), default=0)
    tops = [index for index, row in enumerate(nonblank_rows) if measure_depth(row) == min_depth]
    return (
        sum(
            not is_continuation(nonblank_rows, index) and not PREFIX.match(nonblank_rows[index].strip())
            for index in tops
        )
        == 1
    )


def is_spaced(pieces: Sequence[DraftPiece]) -> bool:
    """True if blank lines stand between every marker and what is next to it."""
    edges = [piece.rows[0] for piece in pieces if piece.has_marker_above]
    edges += [piece.rows[-1] for piece in pieces if piece.has_marker_below]
    return len(edges) > 1 and not any(edges)


def iterate_variants(piece: DraftPiece, *, open_ends: bool, is_padded: bool) -> Iterator[PieceVariant]:
    """Yield the ways to take a piece. `open_ends`: what is outside of the draft may stay without a marker; `is_padded`:
    blank lines beside markers may be there for looks."""
    price = PADDING if is_padded else STRAY
    for head, lead in _iterate_edges(piece, piece.has_marker_above, START, open_ends=open_ends, price=price):
        for tail, trail in _iterate_edges(piece, piece.has_marker_below, STOP, open_ends=open_ends, price=price):
            nonblank_indexes = [index for index, row in enumerate(piece.rows) if row]
            rows = piece.rows[
                nonblank_indexes[0] if head == "" else 0 : nonblank_indexes[-1] + 1 if tail == "" else None
            ]
            ends = ((START,) if head == START else (), (STOP,) if tail == STOP else ())
            yield PieceVariant((*ends[0], *rows, *ends[1]), lead + trail)


def _iterate_edges(
    piece: DraftPiece, has_marker: bool, end: str, *, open_ends: bool, price: int
) -> Iterator[tuple[str | None, int]]:
    """Yield how an edge can be taken: as it is (None), without the blank lines there (""), or as an end of the file."""
    if not has_marker:
        yield end, 0
    if has_marker or open_ends:
        yield None, 0 if has_marker else OPEN_END
        if not (piece.rows[0] if end == START else piece.rows[-1]):
            yield "", price
