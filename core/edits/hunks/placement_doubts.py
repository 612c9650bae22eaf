"""Doubts about a placement of a piece: whether the piece changes anything, and whether its context tells enough."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from core.edits.hunks.costs import compute_replacement_cost, is_telling
from core.edits.hunks.pieces import START, STOP
from core.edits.hunks.placement_choice import is_same_result
from core.edits.hunks.placements import REACH, LineIndex, Placement
from core.edits.lazy.line_keys import parse_line_key
from core.text.lines import Opcode, count_shared_head, diff_lines

_FEW: Final = 6
_MANY: Final = 3
_CONTEXT: Final = 6
CLOSE: Final = 48
_FAR: Final = 80


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
    if not any(_is_telling(run) for run in shared_runs):
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
            and not _is_telling(run)
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
    if not own_fit.removed and not own_fit.is_held and len(own_fit.added) >= _MANY:
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
    is_copy = not rival.removed and sum(row in index.counts for row in rival.added) >= _MANY
    return bool(own_fit.removed) and (losing or is_near) and is_copy


def _is_defined_twice(row: str, placement: Placement, index: LineIndex) -> bool:
    """True if a line that comes defines what the very same line defines near by."""
    bounds = (placement.first - REACH, placement.last + REACH)
    is_nearby = any(bounds[0] <= position < bounds[1] for position in index.places.get(row, ()))
    return is_nearby and (parse_line_key(row) or "").startswith("definition ")


def _is_telling(run: Sequence[str]) -> bool:
    return any(row[:1] != "\0" and is_telling(row) for row in run)


def _loses_lines(code: Opcode, old: Sequence[str], new: Sequence[str]) -> bool:
    """True if a change takes away a definition, or many lines, and puts nothing like it there."""
    _, i1, i2, j1, j2 = code
    removed_lines = [line for line in old[i1:i2] if is_telling(line)]
    others = [line for line in removed_lines if all(compute_replacement_cost(row, line) is None for row in new[j1:j2])]
    return len(others) > _FEW or _loses_definition(removed_lines, new[j1:j2])


def _loses_definition(removed_lines: Sequence[str], added_lines: Sequence[str]) -> bool:
    keys = {parse_line_key(row) for row in added_lines}
    lost_keys = {key for line in removed_lines if (key := parse_line_key(line)) is not None and key not in keys}
    return any(key.startswith(("definition ", "block ")) for key in lost_keys)
