"""The pieces of a draft, and the placement of every piece in the file.

A piece is a run of lines between two markers. It is bound to an end of the file where no marker stands: `START` and
`STOP` stand for the ends of the file (or of the edited range) as if they were lines of it, so that an end is an anchor
like any other.

A piece replaces a run of lines that begins with the piece's first line and ends with its last one. Its cost is that of
the cheapest way to turn these lines into the piece (Gotoh's recurrence, 1982: a change has a price, and every line in
it has one), plus the cost of missing context. `choose_placements` picks the cheapest placements of all pieces that are
in order, and says whether any other choice comes near.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from core.edits.drafts.line_costs import (
    CHANGE,
    LEAST,
    compute_deletion_cost,
    compute_insertion_cost,
    compute_missing_context_cost,
    compute_placement_cost,
    compute_replacement_cost,
    is_informative,
)
from core.edits.drafts.line_keys import parse_line_key
from core.edits.drafts.line_matches import BRANCH, PREFIX, is_continuation
from core.edits.indentation import measure_depth
from core.patterns import compile_lazily
from core.text.lines import count_shared_head

START: Final = "\0start"
STOP: Final = "\0stop"
REACH: Final = 120  # lines that a piece may be shorter than the lines that it replaces
_SLACK: Final = 100  # placements that cost so much more than the best are skipped
_MAX_PLACEMENTS: Final = 60  # of one piece
_MAX_CELLS: Final = 800_000  # of the cost tables of a draft
_NEVER: Final = 10**9
_OPEN_END_COST: Final = 6  # of lines outside of the draft that stay without a marker
_PADDING_COST: Final = 12  # of blank lines that only set a marker off
_STRAY_COST: Final = 60  # of the same, if not all markers have them
_MARGIN: Final = 30  # by which any other placement has to be worse; for an expensive change up to:
_MAX_MARGIN: Final = 45
_MARGIN_PART: Final = 0.35  # of the cost of the change
_TIE_MARGIN: Final = 10  # below which two placements are tied
_EMPTY_MARKER_COST: Final = 20  # of a marker that covers nothing
_STATEMENT: Final = compile_lazily(r"[\w.]+\(.*\);?$|export\b")


class DraftPiece(NamedTuple):
    """Lines of a draft between two markers, or a marker and an end of the draft."""

    rows: tuple[str, ...]
    has_marker_above: bool
    has_marker_below: bool


class PieceVariant(NamedTuple):
    """One reading of a piece with its cost: with an end of the file, or without blank lines next to a marker."""

    rows: tuple[str, ...]
    cost: int


def split_pieces(rows: Sequence[str], marker_flags: Sequence[bool]) -> list[DraftPiece]:
    """Split a draft into its pieces, in order; blank lines alone between two markers are no piece."""
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
    """True if the file has all pieces to the letter, in order, apart from blank lines: nothing in them is new."""
    nonblank_lines, start = [line for line in lines if line], 0
    for piece in pieces:
        rows = [row.rstrip() for row in piece.rows if row]
        positions = (
            index
            for index in range(start, len(nonblank_lines) - len(rows) + 1)
            if nonblank_lines[index : index + len(rows)] == rows
        )
        if (position := next(positions, None)) is None:
            return False
        start = position + len(rows)
    return True


def is_outlined(pieces: Sequence[DraftPiece]) -> bool:
    """True if every piece begins with a named line, and its other lines are below or next to it."""
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
    """True if every piece also ends where its first block ends, as far as a closing or a blank line shows that."""
    return is_outlined(pieces) and all(_ends_with_start(piece) for piece in pieces)


def _ends_with_start(piece: DraftPiece) -> bool:
    nonblank_rows = [row for row in piece.rows if row]
    is_closed = is_continuation(nonblank_rows, len(nonblank_rows) - 1) and measure_depth(
        nonblank_rows[-1]
    ) <= measure_depth(nonblank_rows[0])
    return is_closed or not piece.rows[-1] or not piece.has_marker_below


def is_single(rows: Sequence[str]) -> bool:
    """True if all lines are one block: the first of the least depth opens it, and others may only close it."""
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
    """True if blank lines separate every marker from its neighbours."""
    edges = [piece.rows[0] for piece in pieces if piece.has_marker_above]
    edges += [piece.rows[-1] for piece in pieces if piece.has_marker_below]
    return len(edges) > 1 and not any(edges)


def iterate_variants(piece: DraftPiece, *, open_ends: bool, is_padded: bool) -> Iterator[PieceVariant]:
    """Yield the readings of a piece. `open_ends`: lines outside of the draft may stay without a marker; `is_padded`:
    blank lines next to markers may only be there for looks."""
    price = _PADDING_COST if is_padded else _STRAY_COST
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
    """Yield the readings of an edge with their costs: unchanged (None), without its blank lines (""), or an end of the
    file."""
    if not has_marker:
        yield end, 0
    if has_marker or open_ends:
        yield None, 0 if has_marker else _OPEN_END_COST
        if not (piece.rows[0] if end == START else piece.rows[-1]):
            yield "", price


class Placement(NamedTuple):
    """Lines `first` to `last` (exclusive) of the file become `rows`."""

    cost: int
    first: int
    last: int
    rows: tuple[str, ...]


class TooManyPlacements(Exception):
    """There are too many positions to try."""


class LineIndex:
    """The lines of a file between its two ends, with their positions and counts."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = list(lines)
        self.counts = Counter(lines)
        self.positions: dict[str, list[int]] = defaultdict(list)
        for index, line in enumerate(lines):
            self.positions[line].append(index)
        self._deletion_costs = [compute_deletion_cost(line) for line in self.lines]
        self._cells = 0

    def find_placements(self, rows: tuple[str, ...], extra: int) -> list[Placement]:
        """Find every position of a piece that is not much worse than the best, best first. Raises
        `TooManyPlacements`."""
        keys = tuple(row.rstrip() for row in rows)
        if len(keys) == 1:
            return [
                Placement(extra, position, position + 1, rows)
                for position in self.positions.get(keys[0], ())[:_MAX_PLACEMENTS]
            ]
        placements: list[Placement] = []
        best = _NEVER
        for least_cost, start in sorted(self._find_starts(keys)):
            if least_cost + extra > best + _SLACK:
                break
            region = self.lines[start : start + len(keys) + REACH]
            for size, cost in self._compute_costs(start, region, keys, best + _SLACK - extra):
                total_cost = extra + compute_placement_cost(cost, keys, region[:size], self.counts)
                placements.append(Placement(total_cost, start, start + size, rows))
                best = min(best, total_cost)
        spans = {placement[1:3] for placement in placements}
        for start, stop in self._find_gaps(keys):
            if (start, stop) not in spans:
                total_cost = extra + compute_placement_cost(_NEVER, keys, self.lines[start:stop], self.counts)
                placements.append(Placement(total_cost, start, stop, rows))
                best = min(best, total_cost)
        placements.sort()
        return [placement for placement in placements if placement.cost <= best + _SLACK][:_MAX_PLACEMENTS]

    def is_informative(self, run: Sequence[str]) -> bool:
        """True if a run of the file has an informative line, or occurs once in the file."""
        return any(map(is_informative, run)) or self.is_unique(run)

    def is_unique(self, run: Sequence[str]) -> bool:
        """True if the file has this run of lines once."""
        size, rows = len(run), list(run)
        return (
            size > 0
            and sum(self.lines[position : position + size] == rows for position in self.positions[rows[0]]) == 1
        )

    def _find_gaps(self, keys: Sequence[str]) -> Iterator[tuple[int, int]]:
        """Yield positions where a piece only adds lines: its head and its tail are adjacent in the file."""
        for start in self.positions.get(keys[0], ())[:_MAX_PLACEMENTS]:
            head = count_shared_head(keys, self.lines[start : start + len(keys)])
            for stop in range(start + 2, min(start + head + len(keys), len(self.lines)) + 1):
                rest = stop - start - head
                if rest < len(keys) - head and self.lines[stop - 1] == keys[-1]:
                    above = self.lines[start + head : stop]
                    if rest <= 0 or above == list(keys[len(keys) - rest :]):
                        yield start, stop

    def _find_starts(self, keys: tuple[str, ...]) -> Iterator[tuple[int, int]]:
        """Yield (least cost, position) for every position of the first line that has the last one within reach."""
        ends = self.positions.get(keys[-1], [])
        costs = [(row, min(compute_insertion_cost(row, self.counts), LEAST)) for row in keys if is_informative(row)]
        weighted_places = [(cost, self.positions.get(row, [])) for row, cost in costs]
        reach = len(keys) + REACH
        for position in self.positions.get(keys[0], ()):
            if not _has_place_within(ends, position + 1, position + reach):
                continue
            missing = sum(
                cost
                for cost, positions in weighted_places
                if not _has_place_within(positions, position, position + reach)
            )
            yield missing + compute_missing_context_cost(keys, self.lines[position : position + len(keys)]), position

    def _compute_costs(
        self, start: int, region: Sequence[str], rows: tuple[str, ...], limit: int
    ) -> Iterator[tuple[int, int]]:
        """Yield (size of the region, cost of turning it into the piece) for every end that the piece may have, while
        the cost does not exceed `limit`. Raises `TooManyPlacements`."""
        width = len(region) + 1
        deletion_costs = [0, *self._deletion_costs[start : start + len(region)]]
        same, change = [_NEVER] * width, [_NEVER] * width
        same[1] = 0
        for index in range(2, width):
            change[index] = min(change[index - 1], same[index - 1] + CHANGE) + deletion_costs[index]
        for row in rows[1:-1]:
            self._cells += width
            if self._cells > _MAX_CELLS:
                raise TooManyPlacements
            same, change = self._add_row(row, region, deletion_costs, (same, change))
            if min(same) > limit and min(change) > limit:
                return
        for index in range(2, width):
            cost = min(same[index - 1], change[index - 1])
            if region[index - 1] == rows[-1] and cost < _NEVER // 2:
                yield index, cost

    def _add_row(
        self, row: str, region: Sequence[str], deletion_costs: Sequence[int], before: tuple[list[int], list[int]]
    ) -> tuple[list[int], list[int]]:
        """Add one line of the piece: the costs that match it with the line before a position, and those that change
        it."""
        above, above_change = before
        width, insertion_cost = len(above), compute_insertion_cost(row, self.counts)
        same, change = [_NEVER] * width, [_NEVER] * width
        left_same = left_change = _NEVER
        for index in range(1, width):
            least_cost = min(above_change[index], above[index] + CHANGE) + insertion_cost
            removal_cost = min(left_change, left_same + CHANGE) + deletion_costs[index]
            least_cost = min(least_cost, removal_cost)
            left_same = _NEVER
            if index > 1:
                both = min(above[index - 1], above_change[index - 1])
                line = region[index - 1]
                if line == row:
                    same[index] = left_same = both
                elif (
                    both + LEAST < least_cost and (replacement_cost := compute_replacement_cost(row, line)) is not None
                ):
                    same[index] = left_same = both + replacement_cost
            change[index] = left_change = least_cost
        return same, change


def _has_place_within(positions: Sequence[int], start: int, stop: int) -> bool:
    index = bisect_left(positions, start)
    return index < len(positions) and positions[index] < stop


class PlacementChoice(NamedTuple):
    """One placement of every piece, and their cost. `is_sure`: any other choice with another result is clearly worse
    (an expensive change needs a wider margin). `is_tied`: another choice is hardly worse."""

    placements: list[Placement]
    cost: int
    is_sure: bool
    is_tied: bool


def choose_placements(options: Sequence[Sequence[Placement]], lines: Sequence[str]) -> PlacementChoice | None:
    """Return the best choice; None = the pieces fit in no order."""
    ahead = _sum_costs(options)
    behind = [
        row[::-1]
        for row in _sum_costs([list(reversed(placements)) for placements in reversed(options)], is_flipped=True)
    ][::-1]
    sums = [
        [one + other - option.cost for one, other, option in zip(*rows, strict=True)]
        for rows in zip(ahead, behind, options, strict=True)
    ]
    best = min(sums[0], default=_NEVER)
    if best >= _NEVER:
        return None
    best_placements = _pick_cheapest(options, ahead)
    competing = [
        (total - best, placement, other)
        for option, totals, placement in zip(options, sums, best_placements, strict=True)
        for other, total in zip(option, totals, strict=True)
        if total < best + max(_MARGIN, min(_MAX_MARGIN, _MARGIN_PART * placement.cost)) and other != placement
    ]
    others = [worse for worse, placement, other in competing if not is_same_result(placement, other, lines)]
    return PlacementChoice(best_placements, best, not others, min(others, default=_TIE_MARGIN) < _TIE_MARGIN)


def _sum_costs(options: Sequence[Sequence[Placement]], *, is_flipped: bool = False) -> list[list[int]]:
    """Return, for every placement, the least cost of the pieces up to it."""
    totals = [[option.cost for option in options[0]]]
    for above, current_options in pairwise(options):
        row = []
        for option in current_options:
            pairs = [(option, other) if is_flipped else (other, option) for other in above]
            sums = [total + _compute_gap_cost(*pair) for total, pair in zip(totals[-1], pairs, strict=True)]
            row.append(min(min(sums, default=_NEVER) + option.cost, _NEVER))
        totals.append(row)
    return totals


def _compute_gap_cost(above: Placement, below: Placement) -> int:
    if below.first > above.last:
        return 0
    return _EMPTY_MARKER_COST if below.first == above.last else _NEVER


def _pick_cheapest(options: Sequence[Sequence[Placement]], totals: Sequence[Sequence[int]]) -> list[Placement]:
    placements: list[Placement] = []
    for option, row in zip(reversed(options), reversed(totals), strict=True):
        costs = [
            total + (_compute_gap_cost(placement, placements[-1]) if placements else 0)
            for placement, total in zip(option, row, strict=True)
        ]
        placements.append(option[costs.index(min(costs))])
    return placements[::-1]


def is_same_result(one: Placement, other: Placement, lines: Sequence[str]) -> bool:
    """True if two placements of a piece result in the same file."""
    first, last = min(one.first, other.first), max(one.last, other.last)
    results = [
        [*lines[first : placement.first], *placement.rows, *lines[placement.last : last]] for placement in (one, other)
    ]
    return results[0] == results[1]
