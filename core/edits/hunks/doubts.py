"""What a reading of a piece rests on: whether the piece changes anything, and whether its context tells enough."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from core.edits.hunks.choice import alike
from core.edits.hunks.pieces import START, STOP
from core.edits.hunks.readings import REACH, LineIndex, Reading
from core.edits.hunks.weights import becoming, telling
from core.edits.lazy_keys import key_of
from core.edits.transplant import Opcode, opcodes, shared_head

_FEW: Final = 6
_MANY: Final = 3
_CONTEXT: Final = 6
CLOSE: Final = 48
_FAR: Final = 80


class Doubt(StrEnum):
    """`idle`: the piece changes nothing. `bare`: no line that it shares with the file tells anything. `loose`: where
    only lines that tell nothing stand beside a marker, a part of the file would go. `cut`: where the draft begins or
    ends without a marker, lines of the file would go that nothing replaces."""

    IDLE = "idle"
    BARE = "bare"
    LOOSE = "loose"
    CUT = "cut"


def doubt_of(reading: Reading, lines: Sequence[str], *, outlined: bool) -> Doubt | None:
    """The first doubt of a reading; `lines` are those of the file between its ends. `outlined`: the draft is made of
    whole definitions, so that one of them is not lost for another."""
    old, new = lines[reading.first : reading.last], [row.rstrip() for row in reading.rows]
    codes = list(opcodes(old, new))
    shared = [new[j1:j2] for tag, _, _, j1, j2 in codes if tag == "equal"]
    if len(shared) == len(codes):
        return Doubt.IDLE
    if not any(_tells(run) for run in shared):
        return Doubt.BARE
    if outlined and any(
        tag == "replace" and _loses_definition(old[i1:i2], new[j1:j2]) for tag, i1, i2, j1, j2 in codes
    ):
        return Doubt.LOOSE
    for edge, beside in ((0, 1), (-1, -2)):
        first, (tag, i1, i2, _, _) = codes[edge], codes[beside]
        run = new[first[3] : first[4]]
        if run in ([START], [STOP]):
            if (tag == "delete" and any(map(telling, old[i1:i2]))) or _loses(codes[beside], old, new):
                return Doubt.CUT
        elif not any(row[:1] == "\0" for row in run) and not _tells(run) and _loses(codes[beside], old, new):
            return Doubt.LOOSE
    return None


class Fit(NamedTuple):
    """How a reading holds on to the file: lines of context `above` and `below`, six at most and none counted twice;
    `held` when both sides tell something, `told` when the file has both only once; `same` when nothing changes; `come`
    and `gone`, the lines that tell something and come or go."""

    cost: int
    above: int
    below: int
    held: bool
    told: bool
    same: bool
    come: tuple[str, ...]
    gone: tuple[str, ...]

    def outmatches(self, other: Fit) -> bool:
        """Whether it has as much context as another one on both sides, and more on one."""
        mine, theirs = (self.above, self.below), (other.above, other.below)
        return mine != theirs and all(one >= two for one, two in zip(mine, theirs, strict=True))


def fit_of(reading: Reading, index: LineIndex) -> Fit:
    old, new = index.lines[reading.first : reading.last], [row.rstrip() for row in reading.rows]
    head, tail = shared_head(old, new), shared_head(old[::-1], new[::-1])
    splits = [(head, tail)]
    if head + tail >= len(old):
        splits = [(size, len(old) - size) for size in range(len(old) - tail, head + 1)]
    sides = [(old[:size], old[len(old) - rest :]) for size, rest in splits]
    context = [tuple(min(len(side), _CONTEXT) for side in each) for each in sides]
    codes = [code for code in opcodes(old, new) if code[0] != "equal"]
    above, below = max(context, key=lambda each: (min(each), sum(each)))
    return Fit(
        cost=reading.cost,
        above=above,
        below=below,
        held=any(all(map(index.tells, each)) for each in sides),
        told=any(all(map(index.once, each)) for each in sides),
        same=old == new,
        come=tuple(row for _, _, _, j1, j2 in codes for row in new[j1:j2] if telling(row)),
        gone=tuple(row for _, i1, i2, _, _ in codes for row in old[i1:i2] if telling(row)),
    )


def contested(reading: Reading, others: Sequence[Reading], index: LineIndex) -> bool:
    """Whether something speaks against the cheapest reading of a piece: many lines would come where one side tells no
    place, a definition would be there twice, or another reading has a better claim."""
    mine = fit_of(reading, index)
    if mine.same:
        return False
    if not mine.gone and not mine.held and len(mine.come) >= _MANY:
        return True
    if any(_twice(row, reading, index) for row in mine.come if row not in mine.gone):
        return True
    others = [each for each in others if each[1:3] != reading[1:3] and not alike(reading, each, index.lines)]
    rivals = [(fit_of(each, index), each.rows == reading.rows) for each in others]
    return any((same and fit.outmatches(mine)) or _claims(fit, mine, index) for fit, same in rivals)


def _claims(rival: Fit, mine: Fit, index: LineIndex) -> bool:
    """Whether a reading may be meant although it costs more: it leaves the file as it is, is near where no side tells
    the place, keeps a definition, or adds a copy of what the cheapest one changes."""
    near = rival.cost < mine.cost + CLOSE
    if rival.same or (near and not mine.told):
        return True
    losing = _loses_definition(mine.gone, mine.come)
    if losing and rival.cost < mine.cost + _FAR and not _loses_definition(rival.gone, rival.come):
        return True
    return bool(mine.gone) and (losing or near) and _copies(rival, index)


def _copies(fit: Fit, index: LineIndex) -> bool:
    """Whether it only adds lines, and several of them are lines of the file."""
    return not fit.gone and sum(row in index.counts for row in fit.come) >= _MANY


def _twice(row: str, reading: Reading, index: LineIndex) -> bool:
    """Whether a line that comes defines what the very same line defines near by."""
    near = (reading.first - REACH, reading.last + REACH)
    there = any(near[0] <= place < near[1] for place in index.places.get(row, ()))
    return there and (key_of(row) or "").startswith("definition ")


def _tells(run: Sequence[str]) -> bool:
    return any(row[:1] != "\0" and telling(row) for row in run)


def _loses(code: Opcode, old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether a change takes away a definition, or many lines, and puts nothing like it there."""
    _, i1, i2, j1, j2 = code
    gone = [line for line in old[i1:i2] if telling(line)]
    others = [line for line in gone if all(becoming(row, line) is None for row in new[j1:j2])]
    return len(others) > _FEW or _loses_definition(gone, new[j1:j2])


def _loses_definition(gone: Sequence[str], come: Sequence[str]) -> bool:
    keys = {key_of(row) for row in come}
    lost = {key for line in gone if (key := key_of(line)) is not None and key not in keys}
    return any(key.startswith(("definition ", "block ")) for key in lost)
