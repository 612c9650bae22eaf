"""Placements of a piece of a draft in the file, and what speaks against each.

A piece takes the place of a run of lines that begins with the piece's first line and ends with its last one. What it
costs is that of the cheapest way to turn these lines into the piece (Gotoh's recurrence, 1982: a change has a price
of its own, and one for each line), and what its context lacks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from core.edits.hunks.costs import (
    CHANGE,
    LEAST,
    compute_deletion_cost,
    compute_insertion_cost,
    compute_missing_context_cost,
    compute_placement_cost,
    compute_replacement_cost,
    is_telling,
)
from core.text.lines import count_shared_head

REACH: Final = 120  # lines that a piece may be shorter than what it takes the place of
SLACK: Final = 100  # placements that cost so much more than the best are not looked at
_MANY: Final = 60
_CELLS: Final = 800_000
_NEVER: Final = 10**9


class Placement(NamedTuple):
    """Lines `first` to `last` (exclusive) of the file become `rows`."""

    cost: int
    first: int
    last: int
    rows: tuple[str, ...]


class TooManyPlacements(Exception):
    """There are too many places to try."""


class LineIndex:
    """The lines of a file between its two ends, where they stand and how often."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = list(lines)
        self.counts = Counter(lines)
        self.places: dict[str, list[int]] = defaultdict(list)
        for index, line in enumerate(lines):
            self.places[line].append(index)
        self._goes = [compute_deletion_cost(line) for line in self.lines]
        self._cells = 0

    def find_placements(self, rows: tuple[str, ...], extra: int) -> list[Placement]:
        """Find every place of a piece that is not much worse than the best, best first. Raises `TooManyPlacements`."""
        keys = tuple(row.rstrip() for row in rows)
        if len(keys) == 1:
            return [Placement(extra, position, position + 1, rows) for position in self.places.get(keys[0], ())[:_MANY]]
        placements: list[Placement] = []
        best = _NEVER
        for least_cost, start in sorted(self._find_starts(keys)):
            if least_cost + extra > best + SLACK:
                break
            region = self.lines[start : start + len(keys) + REACH]
            for size, cost in self._compute_costs(start, region, keys, best + SLACK - extra):
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
        return [placement for placement in placements if placement.cost <= best + SLACK][:_MANY]

    def is_telling(self, run: Sequence[str]) -> bool:
        """True if lines that stand in the file say something, are one of its ends, or stand there only once."""
        return any(map(is_telling, run)) or self.is_unique(run)

    def is_unique(self, run: Sequence[str]) -> bool:
        """True if lines stand in the file once, one after the other."""
        size, rows = len(run), list(run)
        return (
            size > 0 and sum(self.lines[position : position + size] == rows for position in self.places[rows[0]]) == 1
        )

    def _find_gaps(self, keys: Sequence[str]) -> Iterator[tuple[int, int]]:
        """Yield where a piece only adds lines: its head and its tail stand side by side."""
        for start in self.places.get(keys[0], ())[:_MANY]:
            head = count_shared_head(keys, self.lines[start : start + len(keys)])
            for stop in range(start + 2, min(start + head + len(keys), len(self.lines)) + 1):
                rest = stop - start - head
                if rest < len(keys) - head and self.lines[stop - 1] == keys[-1]:
                    above = self.lines[start + head : stop]
                    if rest <= 0 or above == list(keys[len(keys) - rest :]):
                        yield start, stop

    def _find_starts(self, keys: tuple[str, ...]) -> Iterator[tuple[int, int]]:
        """(what it costs at least, place) for each place of the first line that has the last one within reach."""
        ends = self.places.get(keys[-1], [])
        costs = [(row, min(compute_insertion_cost(row, self.counts), LEAST)) for row in keys if is_telling(row)]
        weighted_places = [(cost, self.places.get(row, [])) for row, cost in costs]
        reach = len(keys) + REACH
        for position in self.places.get(keys[0], ()):
            if not _has_place_within(ends, position + 1, position + reach):
                continue
            missing = sum(
                cost for cost, places in weighted_places if not _has_place_within(places, position, position + reach)
            )
            yield missing + compute_missing_context_cost(keys, self.lines[position : position + len(keys)]), position

    def _compute_costs(
        self, start: int, region: Sequence[str], rows: tuple[str, ...], limit: int
    ) -> Iterator[tuple[int, int]]:
        """Yield (lines of the region, cost of making them the piece) for each end that the piece may have, while a way
        costs no more than `limit`. Raises `TooManyPlacements`."""
        width = len(region) + 1
        goes = [0, *self._goes[start : start + len(region)]]
        same, change = [_NEVER] * width, [_NEVER] * width
        same[1] = 0
        for index in range(2, width):
            change[index] = min(change[index - 1], same[index - 1] + CHANGE) + goes[index]
        for row in rows[1:-1]:
            self._cells += width
            if self._cells > _CELLS:
                raise TooManyPlacements
            same, change = self._add_row(row, region, goes, (same, change))
            if min(same) > limit and min(change) > limit:
                return
        for index in range(2, width):
            cost = min(same[index - 1], change[index - 1])
            if region[index - 1] == rows[-1] and cost < _NEVER // 2:
                yield index, cost

    def _add_row(
        self, row: str, region: Sequence[str], goes: Sequence[int], before: tuple[list[int], list[int]]
    ) -> tuple[list[int], list[int]]:
        """Add one line of the piece: the costs with it the same as the line before a place, and with it changed."""
        above, above_change = before
        width, comes = len(above), compute_insertion_cost(row, self.counts)
        same, change = [_NEVER] * width, [_NEVER] * width
        left_same = left_change = _NEVER
        for index in range(1, width):
            least_cost = min(above_change[index], above[index] + CHANGE) + comes
            removal_cost = min(left_change, left_same + CHANGE) + goes[index]
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


def _has_place_within(places: Sequence[int], start: int, stop: int) -> bool:
    index = bisect_left(places, start)
    return index < len(places) and places[index] < stop
