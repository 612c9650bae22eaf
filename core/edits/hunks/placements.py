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
from core.text.line_diff import count_shared_head

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
            return [Placement(extra, place, place + 1, rows) for place in self.places.get(keys[0], ())[:_MANY]]
        found: list[Placement] = []
        best = _NEVER
        for least, start in sorted(self._find_starts(keys)):
            if least + extra > best + SLACK:
                break
            region = self.lines[start : start + len(keys) + REACH]
            for size, cost in self._compute_costs(start, region, keys, best + SLACK - extra):
                whole = extra + compute_placement_cost(cost, keys, region[:size], self.counts)
                found.append(Placement(whole, start, start + size, rows))
                best = min(best, whole)
        spans = {each[1:3] for each in found}
        for start, stop in self._find_gaps(keys):
            if (start, stop) not in spans:
                whole = extra + compute_placement_cost(_NEVER, keys, self.lines[start:stop], self.counts)
                found.append(Placement(whole, start, stop, rows))
                best = min(best, whole)
        found.sort()
        return [each for each in found if each.cost <= best + SLACK][:_MANY]

    def is_telling(self, run: Sequence[str]) -> bool:
        """True if lines that stand in the file say something, are one of its ends, or stand there only once."""
        return any(map(is_telling, run)) or self.is_unique(run)

    def is_unique(self, run: Sequence[str]) -> bool:
        """True if lines stand in the file once, one after the other."""
        size, rows = len(run), list(run)
        return size > 0 and sum(self.lines[at : at + size] == rows for at in self.places[rows[0]]) == 1

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
        weighed = [(cost, self.places.get(row, [])) for row, cost in costs]
        reach = len(keys) + REACH
        for place in self.places.get(keys[0], ()):
            if not _has_place_within(ends, place + 1, place + reach):
                continue
            missing = sum(cost for cost, places in weighed if not _has_place_within(places, place, place + reach))
            yield missing + compute_missing_context_cost(keys, self.lines[place : place + len(keys)]), place

    def _compute_costs(
        self, start: int, region: Sequence[str], rows: tuple[str, ...], bound: int
    ) -> Iterator[tuple[int, int]]:
        """Yield (lines of the region, cost of making them the piece) for each end that the piece may have, while a way
        costs no more than `bound`. Raises `TooManyPlacements`."""
        width = len(region) + 1
        goes = [0, *self._goes[start : start + len(region)]]
        same, change = [_NEVER] * width, [_NEVER] * width
        same[1] = 0
        for place in range(2, width):
            change[place] = min(change[place - 1], same[place - 1] + CHANGE) + goes[place]
        for row in rows[1:-1]:
            self._cells += width
            if self._cells > _CELLS:
                raise TooManyPlacements
            same, change = self._add_row(row, region, goes, (same, change))
            if min(same) > bound and min(change) > bound:
                return
        for place in range(2, width):
            cost = min(same[place - 1], change[place - 1])
            if region[place - 1] == rows[-1] and cost < _NEVER // 2:
                yield place, cost

    def _add_row(
        self, row: str, region: Sequence[str], goes: Sequence[int], before: tuple[list[int], list[int]]
    ) -> tuple[list[int], list[int]]:
        """Add one line of the piece: the costs with it the same as the line before a place, and with it changed."""
        above, changed = before
        width, comes = len(above), compute_insertion_cost(row, self.counts)
        same, change = [_NEVER] * width, [_NEVER] * width
        left_same = left_change = _NEVER
        for place in range(1, width):
            least = min(changed[place], above[place] + CHANGE) + comes
            gone = min(left_change, left_same + CHANGE) + goes[place]
            least = min(least, gone)
            left_same = _NEVER
            if place > 1:
                both = min(above[place - 1], changed[place - 1])
                line = region[place - 1]
                if line == row:
                    same[place] = left_same = both
                elif both + LEAST < least and (turned := compute_replacement_cost(row, line)) is not None:
                    same[place] = left_same = both + turned
            change[place] = left_change = least
        return same, change


def _has_place_within(places: Sequence[int], start: int, stop: int) -> bool:
    at = bisect_left(places, start)
    return at < len(places) and places[at] < stop
