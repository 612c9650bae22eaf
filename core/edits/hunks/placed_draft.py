"""The file that a draft shaped like a diff makes: every piece in its place, everything else as it was.

A line that a piece shares with the file keeps the file's own bytes, white space at its end and ending included.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from core.edits.hunks.costs import is_telling
from core.edits.hunks.pieces import (
    START,
    STOP,
    DraftPiece,
    are_in_file,
    is_outlined,
    is_single,
    is_spaced,
    is_whole,
    iterate_variants,
    split_pieces,
)
from core.edits.hunks.placement_choice import choose_placements, is_same_result
from core.edits.hunks.placement_doubts import CLOSE, PlacementDoubt, find_doubt, is_contested
from core.edits.hunks.placements import LineIndex, Placement
from core.edits.indentation import measure_depth
from core.edits.lazy.alignment import assign_scopes
from core.edits.lazy.blank_lines import ResultRow
from core.edits.lazy.gaps import MarkedDraft
from core.edits.lazy.line_matches import DraftToken, TokenKind
from core.edits.lazy.marker_law import find_breach
from core.text.line_diff import diff_lines
from core.text.lines import TextLines

_MANY: Final = 80
_EMPTY: Final = 100  # a marker at an end of the file that stands for nothing
MOST_OPEN: Final = 60  # lines at an end that may be meant to go; where all of the draft lies in one thing:
_FEW: Final = 6


class PlacedDraft(NamedTuple):
    """Text that a draft makes of a file. `is_sure`: nothing else that it could make comes near; `is_contested`: but
    something else speaks against it; `is_tied`: something else is as good; `doubts`: of its pieces; `is_outlined`:
    every piece begins with something that has a name; `is_headed`: one is a single line that stays; `is_whole`:
    every piece ends where that does; `has_markers`: there is a marker; `is_repeat`: the file has all pieces as they
    are."""

    text: str
    cost: int
    is_outlined: bool
    is_whole: bool
    has_markers: bool
    is_sure: bool = False
    is_contested: bool = False
    is_tied: bool = False
    doubts: tuple[PlacementDoubt | None, ...] = (None,)
    is_headed: bool = False
    is_repeat: bool = False

    @property
    def is_outline(self) -> bool:
        """True if a piece only shows where something is, or has no context: not a diff, but an outline of the file."""
        bare = not self.is_sure or PlacementDoubt.BARE in self.doubts
        return PlacementDoubt.IDLE in self.doubts or (self.is_outlined and bare)

    @property
    def is_accepted(self) -> bool:
        """True if it may be taken as it is: only pieces that merely show where another one belongs change nothing."""
        changed = [each for each in self.doubts if each is not PlacementDoubt.IDLE]
        is_complete = len(changed) == len(self.doubts) or self.is_headed
        return self.is_sure and is_complete and bool(changed) and not any(changed)

    def allows(self, before: str, after: str) -> bool:
        """True if what was made of an outline in another way may be taken: where heads of what stays tell the
        places, where it is the same, and, unless something speaks against that, where its parts are whole and may as
        well lie elsewhere, or where nothing goes. A draft that only shows what is there changes nothing."""
        if set(self.doubts) == {PlacementDoubt.IDLE}:
            return after == before
        if self.is_headed or after == self.text:
            return True
        if self.is_repeat:
            return after == before
        rest = iter(after.split("\n"))
        harmless = (self.is_whole and self.is_tied) or all(line in rest for line in before.split("\n"))
        return not self.is_contested and harmless


def place_pieces(
    lines: TextLines, rows: Sequence[str], marked: Sequence[bool], *, open_ends: bool
) -> PlacedDraft | None:
    """Place the pieces; None when the draft can't be read as pieces of the file. `rows` are in its indentation;
    `open_ends`: what stands before or after the draft may stay without a marker that says so. Raises
    `TooManyPlacements`."""
    index = LineIndex([START, *(body.rstrip() for body in lines.bodies), STOP])
    options: list[list[Placement]] = []
    pieces = split_pieces(rows, marked)
    padded, outline = is_spaced(pieces), is_outlined(pieces)
    for piece in pieces:
        found = sorted(
            _weigh_empty_markers(placement, piece, len(index.lines))
            for variant in iterate_variants(piece, open_ends=open_ends, padded=padded)
            for placement in index.find_placements(variant.rows, variant.cost)
        )
        options.append(found[:_MANY])
    choice = choose_placements(options, index.lines) if options and all(options) else None
    if choice is None:
        return None
    taken = list(zip(choice.placements, options, strict=True))
    strayed = [_drops_blank_lines(placement, others, index, padded=padded) for placement, others in taken]
    is_sure = choice.is_sure and not any(strayed) and not _has_open_end(choice.placements, pieces, index)
    against = is_sure and any(is_contested(placement, others, index) for placement, others in taken)
    breach = _find_breach(lines, rows, marked, choice.placements)
    is_sure = is_sure and not breach
    return PlacedDraft(
        text=_render_placements(lines, choice.placements),
        cost=choice.cost,
        is_sure=is_sure and not against,
        is_contested=against,
        is_tied=choice.is_tied,
        doubts=tuple(find_doubt(placement, index.lines, outlined=outline) for placement in choice.placements),
        is_outlined=outline,
        is_headed=any(_is_head(placement, index.lines, most=2 if outline else 1) for placement in choice.placements),
        is_whole=is_whole(pieces),
        has_markers=any(marked),
        is_repeat=are_in_file(pieces, index.lines[1:-1]),
    )


def _find_breach(lines: TextLines, rows: Sequence[str], marked: Sequence[bool], placements: Sequence[Placement]) -> str:
    """Return what the law of markers has against placements; "" = nothing."""
    kinds: list[TokenKind] = ["marker" if mark else "line" for mark in marked]
    tokens = [DraftToken(kind, row, measure_depth(row)) for kind, row in zip(kinds, rows, strict=True)]
    return find_breach(MarkedDraft(lines.bodies, assign_scopes(tokens), list(_trace_rows(lines, tokens, placements))))


def _trace_rows(lines: TextLines, tokens: Sequence[DraftToken], placements: Sequence[Placement]) -> Iterator[ResultRow]:
    """Yield the filled lines of the result, each with the line of the draft and the one of the file that it is."""
    given = iter([index for index, token in enumerate(tokens) if token.kind == "line" and token.text.strip()])
    own, place = [body.rstrip() for body in lines.bodies], 0
    for placement in placements:
        first, last = max(placement.first - 1, 0), min(placement.last - 1, len(own))
        yield from (ResultRow(None, index) for index in range(place, first) if own[index])
        rows = [row.rstrip() for row in placement.rows if row not in (START, STOP)]
        for tag, i1, _, j1, j2 in diff_lines(own[first:last], rows):
            for j in range(j1, j2):
                if rows[j]:
                    yield ResultRow(next(given), first + i1 + j - j1 if tag == "equal" else None)
        place = last
    yield from (ResultRow(None, index) for index in range(place, len(own)) if own[index])


def _weigh_empty_markers(placement: Placement, piece: DraftPiece, count: int) -> Placement:
    """Raise the cost where the marker before or after the piece would stand for nothing."""
    above = piece.has_marker_above and placement.first <= 1
    below = piece.has_marker_below and placement.last >= count - 1
    return placement._replace(cost=placement.cost + _EMPTY) if above or below else placement


def describe_unplaced(rows: Sequence[str], marked: Sequence[bool]) -> PlacedDraft:
    """Describe a draft with too many places to try: it is not taken, and only allows what is plain."""
    pieces = split_pieces(rows, marked)
    outline, whole = is_outlined(pieces), is_whole(pieces)
    return PlacedDraft("", 0, is_outlined=outline, is_whole=whole, has_markers=any(marked), is_tied=True)


def _drops_blank_lines(placement: Placement, others: Sequence[Placement], index: LineIndex, *, padded: bool) -> bool:
    """True if a placement drops blank lines of a piece that would matter (if `padded`: and that are hardly dearer)."""
    longer = [each for each in others if _count_rows(each) > _count_rows(placement)]
    if padded:
        longer = [each for each in longer if each.cost < placement.cost + CLOSE]
    near = [each for each in longer if each.first == placement.first or each.last == placement.last]
    return bool(near) and not any(is_same_result(placement, each, index.lines) for each in longer)


def _has_open_end(placements: Sequence[Placement], pieces: Sequence[DraftPiece], index: LineIndex) -> bool:
    """True if lines before or after the draft have no marker: they may be kept, or be what goes."""
    alone = is_single([row for piece in pieces for row in piece.rows])
    ends: list[tuple[Sequence[str], int]] = []
    if not pieces[0].has_marker_above and placements[0].rows[0] != START:
        ends.append((index.lines[1 : placements[0].first], _FEW if alone else MOST_OPEN))
    if not pieces[-1].has_marker_below and placements[-1].rows[-1] != STOP:
        most = _FEW if alone and not pieces[0].has_marker_above else MOST_OPEN
        ends.append((index.lines[placements[-1].last : -1], most))
    return any(0 < sum(map(is_telling, rows)) <= most for rows, most in ends)


def _count_rows(placement: Placement) -> int:
    return sum(row not in (START, STOP) for row in placement.rows)


def _is_head(placement: Placement, lines: Sequence[str], *, most: int) -> bool:
    """True if a piece is a line or two that stay and only show what the next one belongs to."""
    old = [line for line in lines[placement.first : placement.last] if line.strip("\0 ")]
    same = old == [row.rstrip() for row in placement.rows if row.strip()]
    return same and sum(line[0] != "\0" for line in old) <= most


def replace_all_lines(lines: TextLines, rows: Sequence[str]) -> str:
    """Return the text with all of its lines replaced; what both have keeps the file's own bytes."""
    return _render_placements(lines, [Placement(0, 1, len(lines) + 1, tuple(rows))])


def _render_placements(lines: TextLines, placements: Sequence[Placement]) -> str:
    out: list[tuple[str, str]] = []
    own = list(zip(lines.bodies, lines.ends, strict=True))
    fallback, place = lines.find_dominant_ending(), 0
    for placement in placements:
        first, last = max(placement.first - 1, 0), min(placement.last - 1, len(own))
        out += own[place:first]
        rows = [row for row in placement.rows if row not in (START, STOP)]
        old = [body.rstrip() for body, _ in own[first:last]]
        for tag, i1, i2, j1, j2 in diff_lines(old, [row.rstrip() for row in rows]):
            if tag == "equal":
                out += own[first + i1 : first + i2]
            else:
                ends = [end for _, end in own[first + i1 : first + i2]] or [out[-1][1] if out else fallback]
                out += [(row, ends[min(step, len(ends) - 1)] or fallback) for step, row in enumerate(rows[j1:j2])]
        place = last
    out += own[place:]
    return lines.fit_end("".join(body + (end or fallback) for body, end in out))
