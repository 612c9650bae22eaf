"""The file that a draft shaped like a diff makes: every piece in its position, everything else unchanged.

`place_draft` compares all readings of the draft: a line that looks like a marker and is in the file, or is no comment,
may be either. `place_pieces` places one reading, and `find_doubt` and `is_contested` look for what speaks against a
placement. A line that a piece shares with the file keeps the file's bytes, its trailing white space and ending
included.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import combinations, product
from math import prod
from typing import Final, NamedTuple

from core.edits.drafts.alignment import assign_scopes
from core.edits.drafts.draft_indentation import fit_indentation
from core.edits.drafts.line_costs import compute_replacement_cost, is_telling
from core.edits.drafts.line_keys import parse_line_key
from core.edits.drafts.line_matches import DraftToken, ResultRow, TokenKind
from core.edits.drafts.marked_draft import MarkedDraft
from core.edits.drafts.marker_rules import find_breach
from core.edits.drafts.markers import is_marker, may_be_marker, may_be_remark
from core.edits.drafts.placements import (
    REACH,
    START,
    STOP,
    DraftPiece,
    LineIndex,
    Placement,
    TooManyPlacements,
    are_in_file,
    choose_placements,
    is_outlined,
    is_same_result,
    is_single,
    is_spaced,
    is_whole,
    iterate_variants,
    split_pieces,
)
from core.edits.indentation import measure_depth
from core.text.line_diff import Opcode, count_shared_head, diff_lines
from core.text.lines import TextLines

_FEW_LOST: Final = 6
_MANY_ADDED: Final = 3
_CONTEXT: Final = 6
CLOSE: Final = 48
_FAR: Final = 80
_MAX_OPTIONS: Final = 80
_EMPTY: Final = 100  # a marker at an end of the file that stands for nothing
MOST_OPEN: Final = 60  # lines at an end that may be meant to go; where all of the draft lies in one thing:
_MOST_OPEN_SINGLE: Final = 6
_SAID: Final = 100  # what speaks against a line of text that says that something stays
_APART: Final = 100  # how much worse another meaning of such lines has to be
_SHIFTED: Final = 30  # how much better a draft has to fit in another indentation
_MOST_MEANINGS: Final = 16


class PlacementDoubt(StrEnum):
    """`idle`: the piece changes nothing. `bare`: no line that it shares with the file tells anything. `loose`: where
    only lines that tell nothing stand beside a marker, a part of the file would go. `cut`: where the draft begins or
    ends without a marker, lines of the file would go that nothing replaces."""

    IDLE = "idle"
    BARE = "bare"
    LOOSE = "loose"
    CUT = "cut"


def find_doubt(placement: Placement, lines: Sequence[str], *, is_outlined: bool) -> PlacementDoubt | None:
    """Return the first doubt about a placement; None = there is none. `lines` are those of the file between its ends;
    `is_outlined`: the draft is made of whole definitions, so that one of them is not lost for another."""
    old, new = lines[placement.first : placement.last], [row.rstrip() for row in placement.rows]
    codes = list(diff_lines(old, new))
    shared_runs = [new[j1:j2] for tag, _, _, j1, j2 in codes if tag == "equal"]
    if len(shared_runs) == len(codes):
        return PlacementDoubt.IDLE
    if not any(_has_telling_line(run) for run in shared_runs):
        return PlacementDoubt.BARE
    replacements = [(old[i1:i2], new[j1:j2]) for tag, i1, i2, j1, j2 in codes if tag == "replace"]
    if is_outlined and any(_loses_definition(*replacement) for replacement in replacements):
        return PlacementDoubt.LOOSE
    for edge, neighbour in ((0, 1), (-1, -2)):
        first, (tag, i1, i2, _, _) = codes[edge], codes[neighbour]
        run = new[first[3] : first[4]]
        if run in ([START], [STOP]):
            if (tag == "delete" and any(map(is_telling, old[i1:i2]))) or _loses_lines(codes[neighbour], old, new):
                return PlacementDoubt.CUT
        elif (
            not any(row[:1] == "\0" for row in run)
            and not _has_telling_line(run)
            and _loses_lines(codes[neighbour], old, new)
        ):
            return PlacementDoubt.LOOSE
    return None


class PlacementFit(NamedTuple):
    """The measure of how well a placement holds on to the file: lines of context `above` and `below`, six at most and
    none counted twice; `is_held` when both sides tell something, `is_unique` when the file has both only once;
    `is_unchanged` when nothing changes; `added` and `removed`, the lines that tell something and come or go."""

    cost: int
    above: int
    below: int
    is_held: bool
    is_unique: bool
    is_unchanged: bool
    added: tuple[str, ...]
    removed: tuple[str, ...]

    def has_more_context(self, other: PlacementFit) -> bool:
        """True if it has as much context as another one on both sides, and more on one."""
        context, other_context = (self.above, self.below), (other.above, other.below)
        return context != other_context and all(one >= two for one, two in zip(context, other_context, strict=True))


def measure_fit(placement: Placement, index: LineIndex) -> PlacementFit:
    """Measure how a placement holds on to the file."""
    old, new = index.lines[placement.first : placement.last], [row.rstrip() for row in placement.rows]
    head, tail = count_shared_head(old, new), count_shared_head(old[::-1], new[::-1])
    splits = [(head, tail)]
    if head + tail >= len(old):
        splits = [(size, len(old) - size) for size in range(len(old) - tail, head + 1)]
    sides = [(old[:size], old[len(old) - rest :]) for size, rest in splits]
    context = [tuple(min(len(side), _CONTEXT) for side in pair) for pair in sides]
    codes = [code for code in diff_lines(old, new) if code[0] != "equal"]
    above, below = max(context, key=lambda sizes: (min(sizes), sum(sizes)))
    return PlacementFit(
        cost=placement.cost,
        above=above,
        below=below,
        is_held=any(all(map(index.is_telling, pair)) for pair in sides),
        is_unique=any(all(map(index.is_unique, pair)) for pair in sides),
        is_unchanged=old == new,
        added=tuple(row for _, _, _, j1, j2 in codes for row in new[j1:j2] if is_telling(row)),
        removed=tuple(row for _, i1, i2, _, _ in codes for row in old[i1:i2] if is_telling(row)),
    )


def is_contested(placement: Placement, others: Sequence[Placement], index: LineIndex) -> bool:
    """True if something speaks against the cheapest placement of a piece: many lines would come where one side tells
    no place, a definition would be there twice, or another placement has a better claim."""
    own_fit = measure_fit(placement, index)
    if own_fit.is_unchanged:
        return False
    if not own_fit.removed and not own_fit.is_held and len(own_fit.added) >= _MANY_ADDED:
        return True
    if any(_is_defined_twice(row, placement, index) for row in own_fit.added if row not in own_fit.removed):
        return True
    for other in others:
        if other[1:3] == placement[1:3] or is_same_result(placement, other, index.lines):
            continue
        fit, same = measure_fit(other, index), other.rows == placement.rows
        if (same and fit.has_more_context(own_fit)) or _has_better_claim(fit, own_fit, index):
            return True
    return False


def _has_better_claim(rival: PlacementFit, own_fit: PlacementFit, index: LineIndex) -> bool:
    """True if a placement may be meant although it costs more."""
    is_near = rival.cost < own_fit.cost + CLOSE
    if rival.is_unchanged or (is_near and not own_fit.is_unique):
        return True
    losing = _loses_definition(own_fit.removed, own_fit.added)
    if losing and rival.cost < own_fit.cost + _FAR and not _loses_definition(rival.removed, rival.added):
        return True
    is_copy = not rival.removed and sum(row in index.counts for row in rival.added) >= _MANY_ADDED
    return bool(own_fit.removed) and (losing or is_near) and is_copy


def _is_defined_twice(row: str, placement: Placement, index: LineIndex) -> bool:
    """True if a line that comes defines what the very same line defines near by."""
    bounds = (placement.first - REACH, placement.last + REACH)
    is_nearby = any(bounds[0] <= position < bounds[1] for position in index.places.get(row, ()))
    return is_nearby and (parse_line_key(row) or "").startswith("definition ")


def _has_telling_line(run: Sequence[str]) -> bool:
    return any(row[:1] != "\0" and is_telling(row) for row in run)


def _loses_lines(code: Opcode, old: Sequence[str], new: Sequence[str]) -> bool:
    """True if a change takes away a definition, or many lines, and puts nothing like it there."""
    _, i1, i2, j1, j2 = code
    removed_lines = [line for line in old[i1:i2] if is_telling(line)]
    others = [line for line in removed_lines if all(compute_replacement_cost(row, line) is None for row in new[j1:j2])]
    return len(others) > _FEW_LOST or _loses_definition(removed_lines, new[j1:j2])


def _loses_definition(removed_lines: Sequence[str], added_lines: Sequence[str]) -> bool:
    keys = {parse_line_key(row) for row in added_lines}
    lost_keys = {key for line in removed_lines if (key := parse_line_key(line)) is not None and key not in keys}
    return any(key.startswith(("definition ", "block ")) for key in lost_keys)


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
        options.append(placements[:_MAX_OPTIONS])
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
        ends.append((index.lines[1 : placements[0].first], _MOST_OPEN_SINGLE if alone else MOST_OPEN))
    if not pieces[-1].has_marker_below and placements[-1].rows[-1] != STOP:
        limit = _MOST_OPEN_SINGLE if alone and not pieces[0].has_marker_above else MOST_OPEN
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
