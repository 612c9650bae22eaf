"""The places of all pieces of a draft together: in order, with something kept between them, better than any other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from core.edits.hunks.placements import Placement

MARGIN: Final = 30  # what every other placement has to be worse by; where the change itself costs much:
_WIDE: Final = 45
_PART: Final = 0.35
_TIED: Final = 10
_NOTHING_KEPT: Final = 20  # a marker that stands for nothing
_NEVER: Final = 10**9


class PlacementChoice(NamedTuple):
    """One placement of each piece and what they cost. `is_sure`: every other choice that makes another file is
    clearly worse (a change that costs much is made of more guesses). `is_tied`: one is hardly worse."""

    placements: list[Placement]
    cost: int
    is_sure: bool
    is_tied: bool


def choose_placements(options: Sequence[Sequence[Placement]], lines: Sequence[str]) -> PlacementChoice | None:
    """Return the best choice; None when the pieces fit in no order."""
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
        if total < best + max(MARGIN, min(_WIDE, _PART * placement.cost)) and other != placement
    ]
    others = [worse for worse, placement, other in competing if not is_same_result(placement, other, lines)]
    return PlacementChoice(best_placements, best, not others, min(others, default=_TIED) < _TIED)


def _sum_costs(options: Sequence[Sequence[Placement]], *, is_flipped: bool = False) -> list[list[int]]:
    """For each placement the least cost of the pieces up to it."""
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
    return _NOTHING_KEPT if below.first == above.last else _NEVER


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
    """True if two placements of a piece make the same file."""
    first, last = min(one.first, other.first), max(one.last, other.last)
    results = [
        [*lines[first : placement.first], *placement.rows, *lines[placement.last : last]] for placement in (one, other)
    ]
    return results[0] == results[1]
