"""The file that a draft shaped like a diff makes: every piece in its position, everything else unchanged.

`place_draft` compares all readings of the draft: a line that looks like a marker and is in the file, or is no comment,
may be either. `place_pieces` places one reading, and `find_flaw` and `is_contested` look for reasons against a
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
from core.edits.drafts.line_costs import compute_replacement_cost, is_informative
from core.edits.drafts.line_keys import parse_line_key
from core.edits.drafts.line_matches import DraftToken, ResultRow, TokenKind
from core.edits.drafts.marked_draft import MarkedDraft
from core.edits.drafts.marker_rules import find_violation
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
from core.text.lines import Opcode, TextLines, count_shared_head, diff_lines

MOST_OPEN: Final = 60  # lines at an end that may be meant to be removed; if the whole draft is one block:
_MOST_OPEN_SINGLE: Final = 6
_MAX_READINGS: Final = 16  # of a draft
_MAX_OPTIONS: Final = 80  # placements of one piece
_UNMARKED_COST: Final = 100  # of reading a line as text although it says that something stays
_READING_MARGIN: Final = 100  # by which any other reading of such lines has to be worse
_SHIFT_MARGIN: Final = 30  # by which another indentation has to be better
_EMPTY_MARKER_COST: Final = 100  # of a marker at an end of the file that covers nothing
_CLOSE_COST: Final = 48  # by which a rival placement may cost more
_FAR_COST: Final = 80  # the same, if the cheapest one removes a definition
_CONTEXT: Final = 6  # lines of context that are counted
_MANY_ADDED: Final = 3  # lines that are not added at an uninformative position
_FEW_LOST: Final = 6  # lines that may be removed without a replacement


def place_draft(lines: TextLines, rows: Sequence[str], *, open_ends: bool) -> PlacedDraft | None:
    """Place a draft in the file; None = it is not made of pieces of the file."""
    shifted_rows = fit_indentation(rows, lines)
    try:
        asis = _choose_best(lines, rows, open_ends)
        other = None if shifted_rows == list(rows) else _choose_best(lines, shifted_rows, open_ends)
    except TooManyPlacements:
        return describe_unplaced(rows, _flag_markers(rows))
    if asis is None or other is None or other.cost + _SHIFT_MARGIN >= asis.cost:
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
    for marker_flags in _iterate_readings(rows, line_counts):
        draft = place_pieces(lines, rows, marker_flags, open_ends=open_ends)
        unmarked_rows = [row for row, mark in zip(rows, marker_flags, strict=True) if not mark]
        suspect_count = sum(may_be_marker(row) and row.rstrip() not in line_counts for row in unmarked_rows)
        drafts += [draft._replace(cost=draft.cost + _UNMARKED_COST * suspect_count)] if draft else []
    best = min(drafts, key=lambda candidate: candidate.cost, default=None)
    if best is not None and any(
        candidate.text != best.text and candidate.cost < best.cost + _READING_MARGIN for candidate in drafts
    ):
        return best._replace(is_sure=False, is_contested=True)
    return best


def _iterate_readings(rows: Sequence[str], line_counts: Counter[str]) -> Iterator[list[bool]]:
    """Yield the flags of the marker lines for every reading. The file has a line as often as it has it, and words that
    the file does not have mean the same wherever they occur. Raises `TooManyPlacements`."""
    markers = _flag_markers(rows)
    positions: dict[str, list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        if markers[index] and (row.rstrip() in line_counts or may_be_marker(row) or may_be_remark(row)):
            positions[row.rstrip()].append(index)
    options = [
        [
            combination
            for size in range(min(line_counts[text], len(indexes)) + 1)
            for combination in combinations(indexes, size)
        ]
        if text in line_counts
        else [(), tuple(indexes)]
        for text, indexes in positions.items()
    ]
    if prod(map(len, options)) > _MAX_READINGS:
        raise TooManyPlacements
    for selection in product(*options):
        lines = {index for combination in selection for index in combination}
        yield [mark and index not in lines for index, mark in enumerate(markers)]


def _flag_markers(rows: Sequence[str]) -> list[bool]:
    return [is_marker(row) or may_be_marker(row) for row in rows]


class PlacedDraft(NamedTuple):
    """The text that a draft makes of a file.

    `is_sure`: no other result comes near; `is_contested`: something else speaks against it; `is_tied`: another result
    is as good; `flaws`: of its pieces; `is_outlined`: every piece begins with a named line; `is_headed`: one piece is a
    single line that stays; `is_whole`: every piece ends where its block does; `has_markers`: the draft has a marker;
    `is_repeat`: the file has all pieces unchanged.
    """

    text: str
    cost: int
    is_outlined: bool
    is_whole: bool
    has_markers: bool
    is_sure: bool = False
    is_contested: bool = False
    is_tied: bool = False
    flaws: tuple[PlacementFlaw | None, ...] = (None,)
    is_headed: bool = False
    is_repeat: bool = False

    @property
    def is_outline(self) -> bool:
        """True if a piece only shows a location, or has no context: the draft is an outline of the file and no diff."""
        bare = not self.is_sure or PlacementFlaw.BARE in self.flaws
        return PlacementFlaw.IDLE in self.flaws or (self.is_outlined and bare)

    @property
    def is_accepted(self) -> bool:
        """True if the text may be used: the only pieces without a change locate another one."""
        active_flaws = [doubt for doubt in self.flaws if doubt is not PlacementFlaw.IDLE]
        is_complete = len(active_flaws) == len(self.flaws) or self.is_headed
        return self.is_sure and is_complete and bool(active_flaws) and not any(active_flaws)

    def allows(self, before: str, after: str) -> bool:
        """True if the result of an outline that was applied in another way may be used.

        It may if heads of retained lines fix the positions, or if it is the same text. Otherwise nothing may speak
        against it, and its pieces have to be whole and may as well be elsewhere, or nothing is removed. A draft that
        only repeats the file changes nothing.
        """
        if set(self.flaws) == {PlacementFlaw.IDLE}:
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
    """Place the pieces; None = the draft can't be read as pieces of the file. `rows` are in the indentation of the
    file; `open_ends`: lines before or after the draft may stay without a marker. Raises `TooManyPlacements`."""
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
    violation = _find_violation(lines, rows, marker_flags, choice.placements)
    is_sure = is_sure and not violation
    return PlacedDraft(
        text=_render_placements(lines, choice.placements),
        cost=choice.cost,
        is_sure=is_sure and not against,
        is_contested=against,
        is_tied=choice.is_tied,
        flaws=tuple(find_flaw(placement, index.lines, is_outlined=outline) for placement in choice.placements),
        is_outlined=outline,
        is_headed=any(_is_head(placement, index.lines, limit=2 if outline else 1) for placement in choice.placements),
        is_whole=is_whole(pieces),
        has_markers=any(marker_flags),
        is_repeat=are_in_file(pieces, index.lines[1:-1]),
    )


def _find_violation(
    lines: TextLines, rows: Sequence[str], marker_flags: Sequence[bool], placements: Sequence[Placement]
) -> str | None:
    """Return why placements break the rules for markers; None: they break none."""
    kinds: list[TokenKind] = ["marker" if mark else "line" for mark in marker_flags]
    tokens = [DraftToken(kind, row, measure_depth(row)) for kind, row in zip(kinds, rows, strict=True)]
    return find_violation(
        MarkedDraft(lines.bodies, assign_scopes(tokens), list(_trace_rows(lines, tokens, placements)))
    )


def _trace_rows(lines: TextLines, tokens: Sequence[DraftToken], placements: Sequence[Placement]) -> Iterator[ResultRow]:
    """Yield the filled rows of the result, with their lines of the draft and of the file."""
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
    """Raise the cost if the marker before or after the piece would cover nothing."""
    above = piece.has_marker_above and placement.first <= 1
    below = piece.has_marker_below and placement.last >= count - 1
    return placement._replace(cost=placement.cost + _EMPTY_MARKER_COST) if above or below else placement


def describe_unplaced(rows: Sequence[str], marker_flags: Sequence[bool]) -> PlacedDraft:
    """Describe a draft with too many possible positions: it is not used, and only allows plain results."""
    pieces = split_pieces(rows, marker_flags)
    outline, is_complete = is_outlined(pieces), is_whole(pieces)
    return PlacedDraft("", 0, is_outlined=outline, is_whole=is_complete, has_markers=any(marker_flags), is_tied=True)


def _drops_blank_lines(placement: Placement, others: Sequence[Placement], index: LineIndex, *, is_padded: bool) -> bool:
    """True if a placement drops significant blank lines of a piece (with `is_padded`, only if keeping them is hardly
    more expensive)."""
    longer = [other for other in others if _count_rows(other) > _count_rows(placement)]
    if is_padded:
        longer = [other for other in longer if other.cost < placement.cost + _CLOSE_COST]
    near_placements = [other for other in longer if other.first == placement.first or other.last == placement.last]
    return bool(near_placements) and not any(is_same_result(placement, other, index.lines) for other in longer)


def _has_open_end(placements: Sequence[Placement], pieces: Sequence[DraftPiece], index: LineIndex) -> bool:
    """True if lines before or after the draft have no marker: they may be meant to stay or to be removed."""
    alone = is_single([row for piece in pieces for row in piece.rows])
    ends: list[tuple[Sequence[str], int]] = []
    if not pieces[0].has_marker_above and placements[0].rows[0] != START:
        ends.append((index.lines[1 : placements[0].first], _MOST_OPEN_SINGLE if alone else MOST_OPEN))
    if not pieces[-1].has_marker_below and placements[-1].rows[-1] != STOP:
        limit = _MOST_OPEN_SINGLE if alone and not pieces[0].has_marker_above else MOST_OPEN
        ends.append((index.lines[placements[-1].last : -1], limit))
    return any(0 < sum(map(is_informative, rows)) <= bound for rows, bound in ends)


def _count_rows(placement: Placement) -> int:
    return sum(row not in (START, STOP) for row in placement.rows)


def _is_head(placement: Placement, lines: Sequence[str], *, limit: int) -> bool:
    """True if a piece is one or two retained lines that only show where the next one belongs."""
    old = [line for line in lines[placement.first : placement.last] if line.strip("\0 ")]
    same = old == [row.rstrip() for row in placement.rows if row.strip()]
    return same and sum(line[0] != "\0" for line in old) <= limit


def replace_all_lines(lines: TextLines, rows: Sequence[str]) -> str:
    """Return the text with all of its lines replaced; common lines keep the file's bytes."""
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


class PlacementFlaw(StrEnum):
    """A reason against a placement.

    `idle`: the piece changes nothing. `bare`: it shares no informative line with the file. `loose`: lines of the file
    would be removed where only uninformative lines are next to a marker. `cut`: lines of the file would be removed
    without a replacement where the draft begins or ends without a marker.
    """

    IDLE = "idle"
    BARE = "bare"
    LOOSE = "loose"
    CUT = "cut"


def find_flaw(placement: Placement, lines: Sequence[str], *, is_outlined: bool) -> PlacementFlaw | None:
    """Return the first flaw of a placement; None = there is none. `lines` are those of the file between its ends;
    `is_outlined`: the draft consists of whole definitions, none of which may be lost for another."""
    old, new = lines[placement.first : placement.last], [row.rstrip() for row in placement.rows]
    codes = list(diff_lines(old, new))
    shared_runs = [new[j1:j2] for tag, _, _, j1, j2 in codes if tag == "equal"]
    if len(shared_runs) == len(codes):
        return PlacementFlaw.IDLE
    if not any(_has_informative_line(run) for run in shared_runs):
        return PlacementFlaw.BARE
    replacements = [(old[i1:i2], new[j1:j2]) for tag, i1, i2, j1, j2 in codes if tag == "replace"]
    if is_outlined and any(_loses_definition(*replacement) for replacement in replacements):
        return PlacementFlaw.LOOSE
    for edge, neighbour in ((0, 1), (-1, -2)):
        first, (tag, i1, i2, _, _) = codes[edge], codes[neighbour]
        run = new[first[3] : first[4]]
        if run in ([START], [STOP]):
            if (tag == "delete" and any(map(is_informative, old[i1:i2]))) or _loses_lines(codes[neighbour], old, new):
                return PlacementFlaw.CUT
        elif (
            not any(row[:1] == "\0" for row in run)
            and not _has_informative_line(run)
            and _loses_lines(codes[neighbour], old, new)
        ):
            return PlacementFlaw.LOOSE
    return None


class PlacementFit(NamedTuple):
    """The hold of a placement in the file.

    `above` and `below`: lines of context, six at most and none counted twice; `is_anchored`: both sides are
    informative; `is_unique`: the file has both sides only once; `is_unchanged`: nothing changes; `added` and `removed`:
    the informative lines that are added and removed.
    """

    cost: int
    above: int
    below: int
    is_anchored: bool
    is_unique: bool
    is_unchanged: bool
    added: tuple[str, ...]
    removed: tuple[str, ...]

    def has_more_context(self, other: PlacementFit) -> bool:
        """True if it has as much context as `other` on both sides, and more on one."""
        context, other_context = (self.above, self.below), (other.above, other.below)
        return context != other_context and all(one >= two for one, two in zip(context, other_context, strict=True))


def measure_fit(placement: Placement, index: LineIndex) -> PlacementFit:
    """Measure the hold of a placement in the file."""
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
        is_anchored=any(all(map(index.is_informative, pair)) for pair in sides),
        is_unique=any(all(map(index.is_unique, pair)) for pair in sides),
        is_unchanged=old == new,
        added=tuple(row for _, _, _, j1, j2 in codes for row in new[j1:j2] if is_informative(row)),
        removed=tuple(row for _, i1, i2, _, _ in codes for row in old[i1:i2] if is_informative(row)),
    )


def is_contested(placement: Placement, others: Sequence[Placement], index: LineIndex) -> bool:
    """True if something speaks against the cheapest placement of a piece: many lines would be added with an
    uninformative side, a definition would be duplicated, or another placement has a better claim."""
    own_fit = measure_fit(placement, index)
    if own_fit.is_unchanged:
        return False
    if not own_fit.removed and not own_fit.is_anchored and len(own_fit.added) >= _MANY_ADDED:
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
    """True if `rival` may be meant although it costs more."""
    is_near = rival.cost < own_fit.cost + _CLOSE_COST
    if rival.is_unchanged or (is_near and not own_fit.is_unique):
        return True
    losing = _loses_definition(own_fit.removed, own_fit.added)
    if losing and rival.cost < own_fit.cost + _FAR_COST and not _loses_definition(rival.removed, rival.added):
        return True
    is_copy = not rival.removed and sum(row in index.counts for row in rival.added) >= _MANY_ADDED
    return bool(own_fit.removed) and (losing or is_near) and is_copy


def _is_defined_twice(row: str, placement: Placement, index: LineIndex) -> bool:
    """True if an added line is a definition that the same line already defines nearby."""
    bounds = (placement.first - REACH, placement.last + REACH)
    is_nearby = any(bounds[0] <= position < bounds[1] for position in index.positions.get(row, ()))
    return is_nearby and (parse_line_key(row) or "").startswith("definition ")


def _has_informative_line(run: Sequence[str]) -> bool:
    return any(row[:1] != "\0" and is_informative(row) for row in run)


def _loses_lines(code: Opcode, old: Sequence[str], new: Sequence[str]) -> bool:
    """True if a change removes a definition, or many lines, and adds nothing similar."""
    _, i1, i2, j1, j2 = code
    removed_lines = [line for line in old[i1:i2] if is_informative(line)]
    others = [line for line in removed_lines if all(compute_replacement_cost(row, line) is None for row in new[j1:j2])]
    return len(others) > _FEW_LOST or _loses_definition(removed_lines, new[j1:j2])


def _loses_definition(removed_lines: Sequence[str], added_lines: Sequence[str]) -> bool:
    keys = {parse_line_key(row) for row in added_lines}
    lost_keys = {key for line in removed_lines if (key := parse_line_key(line)) is not None and key not in keys}
    return any(key.startswith(("definition ", "block ")) for key in lost_keys)
