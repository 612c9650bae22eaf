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
from core.text.lines import TextLines, diff_lines

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
        active_doubts = [doubt for doubt in self.doubts if doubt is not PlacementDoubt.IDLE]
        is_complete = len(active_doubts) == len(self.doubts) or self.is_headed
        return self.is_sure and is_complete and bool(active_doubts) and not any(active_doubts)

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
    lines: TextLines, rows: Sequence[str], marker_flags: Sequence[bool], *, open_ends: bool
) -> PlacedDraft | None:
    """Place the pieces; None when the draft can't be read as pieces of the file. `rows` are in its indentation;
    `open_ends`: what stands before or after the draft may stay without a marker that says so. Raises
    `TooManyPlacements`."""
    index = LineIndex([START, *(body.rstrip() for body in lines.bodies), STOP])
    options: list[list[Placement]] = []
    pieces = split_pieces(rows, marker_flags)
    is_padded, outline = is_spaced(pieces), is_outlined(pieces)
    for piece in pieces:
        placements = sorted(
            _weigh_empty_markers(placement, piece, len(index.lines))
            for variant in iterate_variants(piece, open_ends=open_ends, is_padded=is_padded)
            for placement in index.find_placements(variant.rows, variant.cost)
        )
        options.append(placements[:_MANY])
    choice = choose_placements(options, index.lines) if options and all(options) else None
    if choice is None:
        return None
    pairs = list(zip(choice.placements, options, strict=True))
    stray_flags = [_drops_blank_lines(placement, others, index, is_padded=is_padded) for placement, others in pairs]
    is_sure = choice.is_sure and not any(stray_flags) and not _has_open_end(choice.placements, pieces, index)
    against = is_sure and any(is_contested(placement, others, index) for placement, others in pairs)
    breach = _find_breach(lines, rows, marker_flags, choice.placements)
    is_sure = is_sure and not breach
    return PlacedDraft(
        text=_render_placements(lines, choice.placements),
        cost=choice.cost,
        is_sure=is_sure and not against,
        is_contested=against,
        is_tied=choice.is_tied,
        doubts=tuple(find_doubt(placement, index.lines, is_outlined=outline) for placement in choice.placements),
        is_outlined=outline,
        is_headed=any(_is_head(placement, index.lines, limit=2 if outline else 1) for placement in choice.placements),
        is_whole=is_whole(pieces),
        has_markers=any(marker_flags),
        is_repeat=are_in_file(pieces, index.lines[1:-1]),
    )


def _find_breach(
    lines: TextLines, rows: Sequence[str], marker_flags: Sequence[bool], placements: Sequence[Placement]
) -> str:
    """Return what the law of markers has against placements; "" = nothing."""
    kinds: list[TokenKind] = ["marker" if mark else "line" for mark in marker_flags]
    tokens = [DraftToken(kind, row, measure_depth(row)) for kind, row in zip(kinds, rows, strict=True)]
    return find_breach(MarkedDraft(lines.bodies, assign_scopes(tokens), list(_trace_rows(lines, tokens, placements))))


def _trace_rows(lines: TextLines, tokens: Sequence[DraftToken], placements: Sequence[Placement]) -> Iterator[ResultRow]:
    """Yield the filled lines of the result, each with the line of the draft and the one of the file that it is."""
    token_indexes = iter([index for index, token in enumerate(tokens) if token.kind == "line" and token.text.strip()])
    bodies, position = [body.rstrip() for body in lines.bodies], 0
    for placement in placements:
        first, last = max(placement.first - 1, 0), min(placement.last - 1, len(bodies))
        yield from (ResultRow(None, index) for index in range(position, first) if bodies[index])
        rows = [row.rstrip() for row in placement.rows if row not in (START, STOP)]
        for tag, i1, _, j1, j2 in diff_lines(bodies[first:last], rows):
            for j in range(j1, j2):
                if rows[j]:
                    yield ResultRow(next(token_indexes), first + i1 + j - j1 if tag == "equal" else None)
        position = last
    yield from (ResultRow(None, index) for index in range(position, len(bodies)) if bodies[index])


def _weigh_empty_markers(placement: Placement, piece: DraftPiece, count: int) -> Placement:
    """Raise the cost where the marker before or after the piece would stand for nothing."""
    above = piece.has_marker_above and placement.first <= 1
    below = piece.has_marker_below and placement.last >= count - 1
    return placement._replace(cost=placement.cost + _EMPTY) if above or below else placement


def describe_unplaced(rows: Sequence[str], marker_flags: Sequence[bool]) -> PlacedDraft:
    """Describe a draft with too many places to try: it is not taken, and only allows what is plain."""
    pieces = split_pieces(rows, marker_flags)
    outline, is_complete = is_outlined(pieces), is_whole(pieces)
    return PlacedDraft("", 0, is_outlined=outline, is_whole=is_complete, has_markers=any(marker_flags), is_tied=True)


def _drops_blank_lines(placement: Placement, others: Sequence[Placement], index: LineIndex, *, is_padded: bool) -> bool:
    """True if a placement drops blank lines of a piece that would matter (if `is_padded`: and that are hardly
    dearer)."""
    longer = [other for other in others if _count_rows(other) > _count_rows(placement)]
    if is_padded:
        longer = [other for other in longer if other.cost < placement.cost + CLOSE]
    near_placements = [other for other in longer if other.first == placement.first or other.last == placement.last]
    return bool(near_placements) and not any(is_same_result(placement, other, index.lines) for other in longer)


def _has_open_end(placements: Sequence[Placement], pieces: Sequence[DraftPiece], index: LineIndex) -> bool:
    """True if lines before or after the draft have no marker: they may be kept, or be what goes."""
    alone = is_single([row for piece in pieces for row in piece.rows])
    ends: list[tuple[Sequence[str], int]] = []
    if not pieces[0].has_marker_above and placements[0].rows[0] != START:
        ends.append((index.lines[1 : placements[0].first], _FEW if alone else MOST_OPEN))
    if not pieces[-1].has_marker_below and placements[-1].rows[-1] != STOP:
        limit = _FEW if alone and not pieces[0].has_marker_above else MOST_OPEN
        ends.append((index.lines[placements[-1].last : -1], limit))
    return any(0 < sum(map(is_telling, rows)) <= bound for rows, bound in ends)


def _count_rows(placement: Placement) -> int:
    return sum(row not in (START, STOP) for row in placement.rows)


def _is_head(placement: Placement, lines: Sequence[str], *, limit: int) -> bool:
    """True if a piece is a line or two that stay and only show what the next one belongs to."""
    old = [line for line in lines[placement.first : placement.last] if line.strip("\0 ")]
    same = old == [row.rstrip() for row in placement.rows if row.strip()]
    return same and sum(line[0] != "\0" for line in old) <= limit


def replace_all_lines(lines: TextLines, rows: Sequence[str]) -> str:
    """Return the text with all of its lines replaced; what both have keeps the file's own bytes."""
    return _render_placements(lines, [Placement(0, 1, len(lines) + 1, tuple(rows))])


def _render_placements(lines: TextLines, placements: Sequence[Placement]) -> str:
    output: list[tuple[str, str]] = []
    file_lines = list(zip(lines.bodies, lines.ends, strict=True))
    fallback, position = lines.find_dominant_ending(), 0
    for placement in placements:
        first, last = max(placement.first - 1, 0), min(placement.last - 1, len(file_lines))
        output += file_lines[position:first]
        rows = [row for row in placement.rows if row not in (START, STOP)]
        old = [body.rstrip() for body, _ in file_lines[first:last]]
        for tag, i1, i2, j1, j2 in diff_lines(old, [row.rstrip() for row in rows]):
            if tag == "equal":
                output += file_lines[first + i1 : first + i2]
            else:
                ends = [end for _, end in file_lines[first + i1 : first + i2]] or [
                    output[-1][1] if output else fallback
                ]
                output += [(row, ends[min(step, len(ends) - 1)] or fallback) for step, row in enumerate(rows[j1:j2])]
        position = last
    output += file_lines[position:]
    return lines.fit_end("".join(body + (end or fallback) for body, end in output))
