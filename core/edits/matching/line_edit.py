"""One edit of whole lines on the lenient rungs: the blocks of a file that these lines may be, and what replaces
them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise

from core.edits.indentation import Shift, deduce_first_shift, deduce_shift, extract_indent
from core.edits.matching.block_merge import (
    LineChange,
    MatchedBlock,
    is_even,
    is_torn,
    merge_block,
    merge_unindented,
    replace_block,
)
from core.edits.matching.search_text import FOLDS, SearchText
from core.text.lines import Opcode, Splice, diff_lines, split_closed

_MOST = 10_000


class LineEdit:
    """`given` lines become `wanted` lines. Both without endings. `opcodes`: what becomes what, where that is known."""

    def __init__(self, search_text: SearchText, old: str, new: str, *, opcodes: Sequence[Opcode] | None = None) -> None:
        self.search_text = search_text
        self.lines = search_text.lines
        self.given, is_closed = split_closed(old)
        self.wanted = split_closed(new)[0] if new or not is_closed else []
        self.filled = [index for index, line in enumerate(self.given) if line.strip()]
        self.is_blank = not self.filled
        self._opcodes = opcodes

    @cached_property
    def is_plain(self) -> bool:
        """True if neither side has characters that look like others."""
        return self.search_text.is_ascii and all(line.isascii() for line in self.given)

    @cached_property
    def change(self) -> LineChange:
        """Return what becomes what: as it is known, else as it is by the difference of the lines."""
        opcodes = self._opcodes if self._opcodes is not None else list(diff_lines(self.given, self.wanted))
        return LineChange(self.given, self.wanted, opcodes)

    def find_splices(self, fold: str, *, skip_blank: bool = False) -> list[Splice]:
        """Find the places where the lines are equal under a fold of `FOLDS`, their indentation shifted by one rule."""
        splices, free = [], 0
        for block in self.find_blocks(fold, skip_blank):
            shift = self.deduce_shift(block) if block.first >= free else None
            if shift is None or is_torn(block, self.change.opcodes):
                continue
            splices.append(self.build_splice(block, shift))
            free = block.last + 1
            if len(splices) > _MOST:
                break
        return splices

    def find_uneven(self) -> list[Splice]:
        """Find the places where the lines are equal, but no one rule turns their indentation into that of the file."""
        return list(filter(None, map(self._splice_uneven, self.find_blocks("look_alikes", skip_blank=True))))

    def _splice_uneven(self, block: MatchedBlock) -> Splice | None:
        indents = [(extract_indent(old_line), extract_indent(present)) for old_line, present in self.pair_lines(block)]
        steps = [(_compare_indents(one[0], two[0]), _compare_indents(one[1], two[1])) for one, two in pairwise(indents)]
        if is_torn(block, self.change.opcodes) or any(old_step * file_step < 0 for old_step, file_step in steps):
            return None
        if len({old_indent for old_indent, _ in indents}) == 1:
            return self._splice_flat(block, indents[0])
        shift = deduce_first_shift(indents)
        if shift is None or sum(shift(f"{old_indent}x") == f"{present}x" for old_indent, present in indents) * 2 < len(
            indents
        ):
            return None
        return self._replace_block(block, replace_block(self.lines, block, [shift(line) for line in self.wanted]))

    def _splice_flat(self, block: MatchedBlock, first: tuple[str, str]) -> Splice | None:
        """Splice where all indentation was lost: new lines that have one keep it, others take that of the line that
        they replace, as far as there is one for each."""
        new_lines = [line for line in self.wanted if line.strip()]
        if len({extract_indent(line) for line in new_lines}) > 1:
            shift = deduce_first_shift([(extract_indent(new_lines[0]), first[1])]) or str
            return self._replace_block(block, replace_block(self.lines, block, [shift(line) for line in self.wanted]))
        if not is_even(self.lines, block, self.given, self.wanted):
            return None
        return self._replace_block(block, merge_unindented(self.lines, block, self.given, self.wanted))

    def build_splice(self, block: MatchedBlock, shift: Shift) -> Splice:
        """Build the splice of a block, the new lines re-indented by `shift`."""
        return self._replace_block(block, merge_block(self.lines, block, self.change, shift))

    def _replace_block(self, block: MatchedBlock, replacement: str) -> Splice:
        return Splice(self.lines.starts[block.first], self.lines.find_end(block.last), replacement)

    def deduce_shift(self, block: MatchedBlock) -> Shift | None:
        """Deduce the rule that turns the given indentation into that of a block; None when there is none."""
        return deduce_shift(self.pair_lines(block), self.wanted)

    def pair_lines(self, block: MatchedBlock) -> list[tuple[str, str]]:
        """Pair each filled line as given with the same one as it is there."""
        bodies = self.lines.bodies
        return [(self.given[index], bodies[block.mapping[index]]) for index in self.filled]

    def find_blocks(self, fold: str, skip_blank: bool) -> Iterator[MatchedBlock]:
        """Yield the places where the lines are equal under a fold, whatever their indentation."""
        key = FOLDS[fold]
        old_lines = [self.given[index] for index in self.filled] if skip_blank else self.given
        for places in self.search_text.fold_lines(fold, skip_blank=skip_blank).find_blocks([*map(key, old_lines)]):
            yield self.map_block(places) if skip_blank else MatchedBlock(places[0], places[-1], places)

    def map_block(self, places: Sequence[int]) -> MatchedBlock:
        """Build a block over blank lines: given ones are paired with those that are there, as far as there are any."""
        mapping = [-1] * len(self.given)
        for index, position in zip(self.filled, places, strict=True):
            mapping[index] = position
        for index in range(1, len(mapping)):
            after = mapping[index - 1] + 1
            if mapping[index] < 0 < after < len(self.lines) and not self.lines.bodies[after].strip():
                mapping[index] = after
        for index in range(self.filled[0] - 1, -1, -1):
            before = mapping[index + 1] - 1
            if before >= 0 and not self.lines.bodies[before].strip():
                mapping[index] = before
        positions = [position for position in mapping if position >= 0]
        return MatchedBlock(positions[0], positions[-1], mapping)


def _compare_indents(one: str, other: str) -> int:
    """1 if the indentation grows, 0 if it stays, -1 if it shrinks."""
    first, second = len(one.expandtabs(4)), len(other.expandtabs(4))
    return (second > first) - (second < first)
