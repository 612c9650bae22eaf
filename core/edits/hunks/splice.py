"""The file that a draft shaped like a diff makes: every piece in its place, everything else as it was.

A line that a piece shares with the file keeps the file's own bytes, white space at its end and ending included.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from core.edits.hunks.choice import alike, chosen
from core.edits.hunks.doubts import CLOSE, Doubt, contested, doubt_of
from core.edits.hunks.pieces import START, STOP, Piece, outlined, pieces_of, single, spaced, variants, whole
from core.edits.hunks.readings import LineIndex, Reading
from core.edits.hunks.weights import telling
from core.edits.lines import Lines
from core.edits.transplant import opcodes

_MANY: Final = 80
_EMPTY: Final = 100  # a marker at an end of the file that stands for nothing
MOST_OPEN: Final = 60  # lines at an end that may be meant to go; where all of the draft lies in one thing:
_FEW: Final = 6


class Spliced(NamedTuple):
    """What a draft makes of a text. `sure`: nothing else that it could make comes near; `contested`: but something else
    speaks against it; `tied`: something else is as good; `doubts`: of its pieces; `outlined`: every piece begins with
    something that has a name; `headed`: one is a single line that stays; `whole`: every piece ends where that does;
    `marked`: there is a marker."""

    text: str
    cost: int
    sure: bool
    contested: bool
    tied: bool
    doubts: tuple[Doubt | None, ...]
    outlined: bool
    headed: bool
    whole: bool
    marked: bool

    @property
    def sketched(self) -> bool:
        """Whether a piece only shows where something is, or has no context: not a diff, but an outline of the file."""
        return Doubt.IDLE in self.doubts or (self.outlined and (not self.sure or Doubt.BARE in self.doubts))

    @property
    def taken(self) -> bool:
        """Whether it may be taken as it is: only pieces that merely show where another one belongs change nothing."""
        changed = [each for each in self.doubts if each is not Doubt.IDLE]
        told = len(changed) == len(self.doubts) or self.headed
        return self.sure and told and bool(changed) and not any(changed)

    def allows(self, before: str, after: str) -> bool:
        """Whether what was made of an outline in another way may be taken: where heads of what stays tell the places,
        where it is the same, and, unless something speaks against that, where its parts are whole and may as well lie
        elsewhere, or where nothing goes. A draft that only shows what is there changes nothing."""
        if set(self.doubts) == {Doubt.IDLE}:
            return after == before
        if self.headed or after == self.text:
            return True
        rest = iter(after.split("\n"))
        return not self.contested and ((self.whole and self.tied) or all(line in rest for line in before.split("\n")))


def laid_hunks(lines: Lines, rows: Sequence[str], marked: Sequence[bool], *, open_ends: bool) -> Spliced | None:
    """The text after the draft; None when it can't be read as pieces of the file. `rows` are in the file's indentation.

    `open_ends`: what stands before or after the draft may stay without a marker that says so. Raises `TooLong`.
    """
    index = LineIndex([START, *(body.rstrip() for body in lines.bodies), STOP])
    options: list[list[Reading]] = []
    pieces = pieces_of(rows, marked)
    padded, outline = spaced(pieces), outlined(pieces)
    for piece in pieces:
        found = sorted(
            _weighed(reading, piece, len(index.lines))
            for variant in variants(piece, open_ends=open_ends, padded=padded)
            for reading in index.readings(variant.rows, variant.cost)
        )
        options.append(found[:_MANY])
    choice = chosen(options, index.lines) if options and all(options) else None
    if choice is None:
        return None
    taken = list(zip(choice.readings, options, strict=True))
    strayed = [_strayed(reading, others, index, padded=padded) for reading, others in taken]
    told = choice.sure and not any(strayed) and not _left_open(choice.readings, pieces, index)
    against = told and any(contested(reading, others, index) for reading, others in taken)
    return Spliced(
        text=_text(lines, choice.readings),
        cost=choice.cost,
        sure=told and not against,
        contested=against,
        tied=choice.tied,
        doubts=tuple(doubt_of(reading, index.lines, outlined=outline) for reading in choice.readings),
        outlined=outline,
        headed=any(_heads(reading, index.lines, most=2 if outline else 1) for reading in choice.readings),
        whole=whole(pieces),
        marked=any(marked),
    )


def _weighed(reading: Reading, piece: Piece, count: int) -> Reading:
    """A reading that costs more where the marker before or after the piece would stand for nothing."""
    empty = (piece.above and reading.first <= 1) or (piece.below and reading.last >= count - 1)
    return reading._replace(cost=reading.cost + _EMPTY) if empty else reading


def unlaid(rows: Sequence[str], marked: Sequence[bool]) -> Spliced:
    """What is known of a draft that has too many places to try: it is not taken, and only allows what is plain."""
    pieces = pieces_of(rows, marked)
    return Spliced(
        text="",
        cost=0,
        sure=False,
        contested=False,
        tied=True,
        doubts=(None,),
        outlined=outlined(pieces),
        headed=False,
        whole=whole(pieces),
        marked=any(marked),
    )


def _strayed(reading: Reading, others: Sequence[Reading], index: LineIndex, *, padded: bool) -> bool:
    """Whether a reading leaves out blank lines of a piece, and keeping them would make another file; where all markers
    have blank lines beside them, only if that is not much worse."""
    longer = [each for each in others if _size(each) > _size(reading)]
    if padded:
        longer = [each for each in longer if each.cost < reading.cost + CLOSE]
    near = [each for each in longer if each.first == reading.first or each.last == reading.last]
    return bool(near) and not any(alike(reading, each, index.lines) for each in longer)


def _left_open(readings: Sequence[Reading], pieces: Sequence[Piece], index: LineIndex) -> bool:
    """Whether lines before or after the draft have no marker: they may be kept, or be what goes."""
    alone = single([row for piece in pieces for row in piece.rows])
    ends: list[tuple[Sequence[str], int]] = []
    if not pieces[0].above and readings[0].rows[0] != START:
        ends.append((index.lines[1 : readings[0].first], _FEW if alone else MOST_OPEN))
    if not pieces[-1].below and readings[-1].rows[-1] != STOP:
        ends.append((index.lines[readings[-1].last : -1], _FEW if alone and not pieces[0].above else MOST_OPEN))
    return any(0 < sum(map(telling, rows)) <= most for rows, most in ends)


def _size(reading: Reading) -> int:
    return sum(row not in (START, STOP) for row in reading.rows)


def _heads(reading: Reading, lines: Sequence[str], *, most: int) -> bool:
    """Whether a piece is a line or two that stay and only show what the next one belongs to."""
    old = [line for line in lines[reading.first : reading.last] if line.strip("\0 ")]
    return (
        old == [row.rstrip() for row in reading.rows if row.strip()] and len([x for x in old if x[0] != "\0"]) <= most
    )


def replaced(lines: Lines, rows: Sequence[str]) -> str:
    """The text with all of its lines replaced; what both have keeps the file's own bytes."""
    return _text(lines, [Reading(0, 1, len(lines) + 1, tuple(rows))])


def _text(lines: Lines, readings: Sequence[Reading]) -> str:
    out: list[tuple[str, str]] = []
    own = list(zip(lines.bodies, lines.ends, strict=True))
    fallback, place = lines.dominant(), 0
    for reading in readings:
        first, last = max(reading.first - 1, 0), min(reading.last - 1, len(own))
        out += own[place:first]
        rows = [row for row in reading.rows if row not in (START, STOP)]
        old = [body.rstrip() for body, _ in own[first:last]]
        for tag, i1, i2, j1, j2 in opcodes(old, [row.rstrip() for row in rows]):
            if tag == "equal":
                out += own[first + i1 : first + i2]
            else:
                ends = [end for _, end in own[first + i1 : first + i2]] or [out[-1][1] if out else fallback]
                out += [(row, ends[min(step, len(ends) - 1)] or fallback) for step, row in enumerate(rows[j1:j2])]
        place = last
    out += own[place:]
    closed = not lines.ends or bool(lines.ends[-1])
    text = "".join(body + (end or fallback) for body, end in out)
    return text if closed else text.removesuffix("\n").removesuffix("\r")
