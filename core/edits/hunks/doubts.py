"""What a reading of a piece rests on: whether the piece changes anything, and whether its context tells enough."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final

from core.edits.hunks.choice import alike
from core.edits.hunks.pieces import START, STOP
from core.edits.hunks.readings import Ground, Reading
from core.edits.hunks.weights import becoming, telling
from core.edits.lazy_keys import key_of
from core.edits.transplant import Opcode, opcodes, shared_head

_FEW: Final = 6
_COPIED: Final = 3
_PART: Final = 0.34
_WIDE: Final = 80  # what other readings have to be worse by, where one side tells no place


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


def copied(reading: Reading, others: Sequence[Reading], ground: Ground) -> bool:
    """Whether a piece stands in the file as it is, or one of which only one side tells where it belongs may as well be
    a changed copy of what stands there as a change of that."""
    old, new = ground.lines[reading.first : reading.last], [row.rstrip() for row in reading.rows]
    head, tail = shared_head(old, new), shared_head(old[::-1], new[::-1])
    runs = (new[:head], new[len(new) - tail :])
    weak = [_weak(run, ground) for run in runs]
    bare = [lacks or run in ([START], [STOP]) for lacks, run in zip(weak, runs, strict=True)]
    if head == len(new) == len(old):
        return False
    still = any(ground.lines[each.first : each.last] == [row.rstrip() for row in each.rows] for each in others)
    rivals = [each for each in others if each[1:3] != reading[1:3] and not alike(reading, each, ground.lines)]
    close = [each for each in rivals if each.cost < reading.cost + _WIDE]
    if still or any(
        (bare[0] and each.last == reading.last) or (bare[1] and each.first == reading.first) for each in close
    ):
        return True
    beside = [each for each in close if each.first == reading.first or each.last == reading.last]
    if any(_adds(each, ground) != _adds(reading, ground) and _copies(each, reading, ground) for each in beside):
        return True
    if not any(weak):
        return False
    if head + tail >= len(old):
        come = new[head : head + len(new) - len(old)]
        return _known(come, ground) >= _COPIED or any(_covers(each, reading, ground) for each in rivals)
    added = _added_below(reading, ground) if weak[0] else _added_above(reading, ground)
    return any(_known(rows, ground) >= _COPIED for rows in added)


def _added_below(reading: Reading, ground: Ground) -> Iterator[Sequence[str]]:
    """The lines that a piece would add if nothing went, for each place of its first line above its last ones."""
    keys = [row.rstrip() for row in reading.rows]
    for size in range(1, shared_head(keys[::-1], ground.lines[: reading.last][::-1]) + 1):
        place = reading.last - size - 1
        if place >= 0 and ground.lines[place] == keys[0]:
            yield keys[1 : len(keys) - size]


def _added_above(reading: Reading, ground: Ground) -> Iterator[Sequence[str]]:
    keys = [row.rstrip() for row in reading.rows]
    for size in range(1, shared_head(keys, ground.lines[reading.first : reading.first + len(keys)]) + 1):
        place = reading.first + size
        if place < len(ground.lines) and ground.lines[place] == keys[-1]:
            yield keys[size:-1]


def _adds(reading: Reading, ground: Ground) -> bool:
    """Whether a reading only adds lines."""
    old, new = ground.lines[reading.first : reading.last], [row.rstrip() for row in reading.rows]
    return shared_head(old, new) + shared_head(old[::-1], new[::-1]) >= len(old)


def _copies(one: Reading, other: Reading, ground: Ground) -> bool:
    """Whether that of two readings which only adds lines adds several that the file has."""
    adding = one if _adds(one, ground) else other
    head = shared_head([row.rstrip() for row in adding.rows], ground.lines[adding.first : adding.last])
    come = [row.rstrip() for row in adding.rows[head : head + len(adding.rows) - (adding.last - adding.first)]]
    return sum(telling(row) and row in ground.counts for row in come) >= _COPIED


def _known(rows: Sequence[str], ground: Ground) -> int:
    return sum(telling(row) and ground.counts[row] == 1 for row in rows)


def _covers(rival: Reading, chosen: Reading, ground: Ground) -> bool:
    """Whether a good part of what a rival takes away beyond the chosen reading comes again, maybe changed."""
    beyond = [*range(rival.first, chosen.first), *range(chosen.last, rival.last)]
    gone = [ground.lines[place] for place in beyond if telling(ground.lines[place])]
    rows = [row.rstrip() for row in rival.rows]
    again = sum(any(becoming(row, line) is not None for row in rows) for line in gone)
    return bool(gone) and again >= _PART * len(gone)


def _weak(run: Sequence[str], ground: Ground) -> bool:
    """Whether the lines beside a marker tell no place: nothing at all, or one line that the file has more than once."""
    if any(row[:1] == "\0" for row in run):
        return False
    return not _tells(run) or (len(run) == 1 and ground.counts[run[0]] > 1)


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
