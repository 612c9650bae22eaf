"""The places of all pieces of a draft together: in order, with something kept between them, better than any other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from core.edits.hunks.readings import Reading

MARGIN: Final = 30  # what every other reading has to be worse by; where the change itself costs much:
_WIDE: Final = 45
_PART: Final = 0.35
_TIED: Final = 10
_NOTHING_KEPT: Final = 20  # a marker that stands for nothing
_NEVER: Final = 10**9


class Choice(NamedTuple):
    """One reading of each piece, what they cost, and whether every other choice that makes another file is clearly
    worse: a change that costs much is made of more guesses. `tied`: one is hardly worse."""

    readings: list[Reading]
    cost: int
    sure: bool
    tied: bool


def chosen(options: Sequence[Sequence[Reading]], lines: Sequence[str]) -> Choice | None:
    """The best choice; None when the pieces fit in no order."""
    ahead = _totals(options)
    behind = [row[::-1] for row in _totals([list(reversed(each)) for each in reversed(options)], flipped=True)][::-1]
    sums = [
        [one + other - option.cost for one, other, option in zip(*rows, strict=True)]
        for rows in zip(ahead, behind, options, strict=True)
    ]
    best = min(sums[0], default=_NEVER)
    if best >= _NEVER:
        return None
    picked = _picked(options, ahead)
    rivals = [
        (total - best, mine, other)
        for option, totals, mine in zip(options, sums, picked, strict=True)
        for other, total in zip(option, totals, strict=True)
        if total < best + max(MARGIN, min(_WIDE, _PART * mine.cost)) and other != mine
    ]
    others = [worse for worse, mine, other in rivals if not alike(mine, other, lines)]
    return Choice(picked, best, not others, min(others, default=_TIED) < _TIED)


def _totals(options: Sequence[Sequence[Reading]], *, flipped: bool = False) -> list[list[int]]:
    """For each reading the least cost of the pieces up to it."""
    totals = [[option.cost for option in options[0]]]
    for above, here in pairwise(options):
        row = []
        for option in here:
            sums = [
                total + _between(*((option, other) if flipped else (other, option)))
                for total, other in zip(totals[-1], above, strict=True)
            ]
            row.append(min(min(sums, default=_NEVER) + option.cost, _NEVER))
        totals.append(row)
    return totals


def _between(above: Reading, below: Reading) -> int:
    if below.first > above.last:
        return 0
    return _NOTHING_KEPT if below.first == above.last else _NEVER


def _picked(options: Sequence[Sequence[Reading]], totals: Sequence[Sequence[int]]) -> list[Reading]:
    picked: list[Reading] = []
    for option, row in zip(reversed(options), reversed(totals), strict=True):
        costs = [total + (_between(each, picked[-1]) if picked else 0) for each, total in zip(option, row, strict=True)]
        picked.append(option[costs.index(min(costs))])
    return picked[::-1]


def alike(one: Reading, other: Reading, lines: Sequence[str]) -> bool:
    """Whether two readings of a piece make the same file."""
    first, last = min(one.first, other.first), max(one.last, other.last)
    made = [[*lines[first : each.first], *each.rows, *lines[each.last : last]] for each in (one, other)]
    return made[0] == made[1]
