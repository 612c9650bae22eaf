"""One edit of whole lines on the lenient rungs: which blocks of a file are these lines, and what replaces them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from core.edits.haystack import FOLDS, Haystack
from core.edits.lines import to_lf
from core.edits.reindent import Shift, deduce_shift, first_line_shift, indent_of
from core.edits.transplant import Block, even, own_lines, placed_lines, torn, transplant

_MOST = 10_000


class Splice(NamedTuple):
    """Replace `[start, end)` of the text."""

    start: int
    end: int
    text: str


class LineEdit:
    """`given` lines become `wanted` lines. Both without endings."""

    def __init__(self, hay: Haystack, old: str, new: str) -> None:
        self.hay = hay
        self.lines = hay.lines
        self.given, closed = as_lines(old)
        self.wanted = as_lines(new)[0] if new or not closed else []
        self.filled = [index for index, line in enumerate(self.given) if line.strip()]
        self.blank = not self.filled

    @cached_property
    def plain(self) -> bool:
        """Whether neither side has characters that look like others."""
        return self.hay.ascii and all(line.isascii() for line in self.given)

    def splices(self, fold: str, *, skip_blank: bool = False) -> list[Splice]:
        """Every place where the lines are equal under a fold of `FOLDS` and the indentation differs by one rule."""
        found, free = [], 0
        for block in self.blocks(fold, skip_blank):
            shift = self.shift(block) if block.first >= free else None
            if shift is None or torn(block, self.given, self.wanted):
                continue
            found.append(self.splice(block, shift))
            free = block.last + 1
            if len(found) > _MOST:
                break
        return found

    def uneven(self) -> list[Splice]:
        """The places where the lines are equal, but no one rule turns their indentation into that of the file."""
        found = [self._uneven(block) for block in self.blocks("look_alikes", skip_blank=True)]
        return [splice for splice in found if splice]

    def _uneven(self, block: Block) -> Splice | None:
        indents = [(indent_of(given), indent_of(present)) for given, present in self.pairs(block)]
        if torn(block, self.given, self.wanted):
            return None
        if any(_sense(one[0], two[0]) * _sense(one[1], two[1]) < 0 for one, two in pairwise(indents)):
            return None
        if len({given for given, _ in indents}) == 1:
            return self._flat(block, indents[0])
        shift = first_line_shift(indents)
        if shift is None or sum(shift(f"{given}x") == f"{present}x" for given, present in indents) * 2 < len(indents):
            return None
        return self._spliced(block, placed_lines(self.lines, block, [shift(line) for line in self.wanted]))

    def _flat(self, block: Block, first: tuple[str, str]) -> Splice | None:
        """All indentation was lost: new lines that have one keep it, others take that of the line that they replace,
        as far as there is one for each."""
        wanted = [line for line in self.wanted if line.strip()]
        if len({indent_of(line) for line in wanted}) > 1:
            shift = first_line_shift([(indent_of(wanted[0]), first[1])]) or str
            return self._spliced(block, placed_lines(self.lines, block, [shift(line) for line in self.wanted]))
        if not even(self.lines, block, self.given, self.wanted):
            return None
        return self._spliced(block, own_lines(self.lines, block, self.given, self.wanted))

    def splice(self, block: Block, shift: Shift) -> Splice:
        return self._spliced(block, transplant(self.lines, block, self.given, self.wanted, shift))

    def _spliced(self, block: Block, replacement: str) -> Splice:
        return Splice(self.lines.starts[block.first], self.lines.stop(block.last), replacement)

    def shift(self, block: Block) -> Shift | None:
        return deduce_shift(self.pairs(block), self.wanted)

    def pairs(self, block: Block) -> list[tuple[str, str]]:
        """Each filled line as given and as it is there."""
        bodies = self.lines.bodies
        return [(self.given[index], bodies[block.mapping[index]]) for index in self.filled]

    def blocks(self, fold: str, skip_blank: bool) -> Iterator[Block]:
        """The places where the lines are equal under a fold, whatever their indentation."""
        key = FOLDS[fold]
        keyed = self.hay.keyed(fold, skip_blank=skip_blank)
        if not skip_blank:
            for places in keyed.blocks([key(line) for line in self.given]):
                yield Block(places[0], places[-1], places)
            return
        for places in keyed.blocks([key(self.given[index]) for index in self.filled]):
            yield self.mapped(places)

    def mapped(self, places: Sequence[int]) -> Block:
        """A block over blank lines: given blank lines are paired with those that are there, as far as there are any."""
        mapping = [-1] * len(self.given)
        for index, place in zip(self.filled, places, strict=True):
            mapping[index] = place
        for index in range(1, len(mapping)):
            after = mapping[index - 1] + 1
            if mapping[index] < 0 < after < len(self.lines) and not self.lines.bodies[after].strip():
                mapping[index] = after
        for index in range(self.filled[0] - 1, -1, -1):
            before = mapping[index + 1] - 1
            if before >= 0 and not self.lines.bodies[before].strip():
                mapping[index] = before
        known = [place for place in mapping if place >= 0]
        return Block(known[0], known[-1], mapping)


def as_lines(text: str) -> tuple[list[str], bool]:
    """Lines without endings, and whether the last one was closed by a newline."""
    lines = to_lf(text).split("\n")
    closed = lines[-1] == "" and len(lines) > 1
    return (lines[:-1], True) if closed else (lines, False)


def _sense(one: str, other: str) -> int:
    """Whether the indentation grows (1), stays (0) or shrinks (-1)."""
    first, second = len(one.expandtabs(4)), len(other.expandtabs(4))
    return (second > first) - (second < first)
