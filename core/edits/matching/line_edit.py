"""One edit of whole lines on the lenient rungs: the blocks of a file that these lines may be, and their replacement.

The edit is the difference between the lines that a model quoted and the lines that it wants. Lines that it left alone
keep the file's bytes (white space, look-alikes, endings, extra blank lines); only lines that it changed are written,
shifted as the block was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from core.edits.indentation import Shift, deduce_first_shift, deduce_shift, extract_indent
from core.edits.matching.search_text import FOLDS, SearchText
from core.text.lines import Opcode, Splice, TextLines, diff_lines, split_closed

_CLOSES = ("}", ")", "]", "else", "elif", "except", "finally", "end", "fi", "done")
_OPENS = (":", "{", "(", "[", "=>", "do", "then")
_MAX_SPLICES = 10_000  # that are built on one rung


@dataclass(frozen=True)
class MatchedBlock:
    """The block of a file that old lines match. `mapping[i]` is the file line of old line i, -1 = a blank one without a
    match."""

    first: int
    last: int
    mapping: Sequence[int]

    @cached_property
    def positions(self) -> frozenset[int]:
        """The lines of the file that an old line matches."""
        return frozenset(self.mapping)


class LineChange(NamedTuple):
    """Old lines, the lines that replace them, and the opcodes between both."""

    old_lines: Sequence[str]
    new_lines: Sequence[str]
    opcodes: Sequence[Opcode]


def merge_block(lines: TextLines, block: MatchedBlock, change: LineChange, shift: Shift) -> str:
    """Return the text that replaces `block` (lines first to last, with the last one's ending)."""
    old_lines, new_lines, opcodes = change
    fallback = lines.find_dominant_ending()
    is_padded = _is_padded(lines, block, old_lines)
    known_bodies = {
        line: lines.bodies[position] for line, position in zip(old_lines, block.mapping, strict=False) if position >= 0
    }
    output: list[tuple[str, str]] = []
    for tag, i1, i2, j1, j2 in opcodes:
        if tag == "equal":
            output += _take_lines(lines, block, block.mapping[i1:i2])
            continue
        ends = [lines.ends[position] for position in block.mapping[i1:i2] if position >= 0]
        for index in range(j1, j2):
            step = index - j1
            end = ends[step] if step < len(ends) else (output[-1][1] if output else fallback)
            line = shift(new_lines[index].rstrip() if is_padded else new_lines[index])
            file_line = known_bodies.get(new_lines[index], line) if line.strip() else line
            output.append((file_line if file_line.rstrip() == line.rstrip() else line, end))
        if tag == "replace" and block.mapping[i2 - 1] >= 0:
            output += _take_lines(lines, block, block.mapping[i2 - 1 : i2])[1:]
    return _join_lines(lines, block, output)


def replace_block(lines: TextLines, block: MatchedBlock, new_lines: Sequence[str]) -> str:
    """Return `new_lines` unchanged, with the endings of the lines that they replace."""
    ends = lines.ends[block.first : block.last + 1]
    return _join_lines(lines, block, [(line, ends[min(index, len(ends) - 1)]) for index, line in enumerate(new_lines)])


def merge_unindented(lines: TextLines, block: MatchedBlock, old_lines: Sequence[str], new_lines: Sequence[str]) -> str:
    """Merge like `merge_block`, for text without indentation: a line gets that of the line that it replaces or
    follows."""
    output: list[tuple[str, str]] = []
    indent = extract_indent(lines.bodies[block.first])
    for tag, i1, i2, j1, j2 in diff_lines(old_lines, new_lines):
        if tag == "equal":
            output += _take_lines(lines, block, block.mapping[i1:i2])
            indent = extract_indent(output[-1][0]) if output and output[-1][0].strip() else indent
            continue
        indents = [extract_indent(lines.bodies[position]) for position in block.mapping[i1:i2] if position >= 0]
        for index in range(j1, j2):
            indent = indents[min(index - j1, len(indents) - 1)] if indents else indent
            line = new_lines[index].strip()
            output.append((indent + line if line else "", ""))
    return _join_lines(lines, block, output)


def _is_padded(lines: TextLines, block: MatchedBlock, old_lines: Sequence[str]) -> bool:
    """True if every old line has trailing white space that the file does not have."""
    pairs = [
        (line, lines.bodies[position])
        for line, position in zip(old_lines, block.mapping, strict=False)
        if position >= 0
    ]
    nonblank_pairs = [(line, body) for line, body in pairs if line.strip()]
    return bool(nonblank_pairs) and all(
        line != line.rstrip() and body == body.rstrip() for line, body in nonblank_pairs
    )


def touches_unknown_blanks(block: MatchedBlock, opcodes: Sequence[Opcode]) -> bool:
    """True if lines are added or removed next to blank lines that the model did not quote: the side of them is
    unknown."""
    positions = block.mapping
    for tag, i1, i2, _, _ in opcodes:
        gaps = [(i1 - 1, i1)] if tag == "insert" else [(i1 - 1, i1), (i2 - 1, i2)] if tag == "delete" else []
        if tag == "replace":
            gaps = list(pairwise(range(i1, i2)))
        for above, below in gaps:
            if above >= 0 and below < len(positions) and 0 <= positions[above] < positions[below] - 1:
                return True
    return False


def can_merge_unindented(
    lines: TextLines, block: MatchedBlock, old_lines: Sequence[str], new_lines: Sequence[str]
) -> bool:
    """True if every new line replaces one, or is between two lines of one depth of which the first opens no block."""
    for tag, i1, i2, j1, j2 in diff_lines(old_lines, new_lines):
        if tag == "equal" or (tag == "replace" and i2 - i1 == j2 - j1):
            continue
        if any(line.rstrip().endswith(_OPENS) or line.lstrip().startswith(_CLOSES) for line in old_lines[i1:i2]):
            return False
        if tag == "delete":
            continue
        around = [block.mapping[index] for index in (i1 - 1, i2) if 0 <= index < len(old_lines)]
        bodies = [lines.bodies[position] for position in around if position >= 0 and lines.bodies[position].strip()]
        if len(bodies) < 2 or len({extract_indent(body) for body in bodies}) > 1 or bodies[0].rstrip().endswith(_OPENS):
            return False
        if any(line.rstrip().endswith(_OPENS) for line in new_lines[j1:j2]):
            return False
    return True


def _take_lines(lines: TextLines, block: MatchedBlock, positions: Sequence[int]) -> list[tuple[str, str]]:
    """Return the (body, ending) of every line of the file, and of the unquoted blank ones after it."""
    pairs = []
    for position in positions:
        stop = position + 1
        while position >= 0 and stop <= block.last and stop not in block.positions:
            stop += 1
        pairs += [(lines.bodies[index], lines.ends[index]) for index in range(position, stop) if position >= 0]
    return pairs


def _join_lines(lines: TextLines, block: MatchedBlock, output: list[tuple[str, str]]) -> str:
    """Return the text of (line, ending) pairs, the last one with the ending of the block; "" = the usual ending."""
    fallback = lines.find_dominant_ending()
    text = "".join(line + (end or fallback) for line, end in output[:-1])
    return text + output[-1][0] + lines.ends[block.last] if output else ""


class LineEdit:
    """An edit of lines: `old_lines` become `new_lines`, both without endings. `opcodes`: the differences, if they are
    known."""

    def __init__(self, search_text: SearchText, old: str, new: str, *, opcodes: Sequence[Opcode] | None = None) -> None:
        self.search_text = search_text
        self.lines = search_text.lines
        self.old_lines, is_closed = split_closed(old)
        self.new_lines = split_closed(new)[0] if new or not is_closed else []
        self.filled = [index for index, line in enumerate(self.old_lines) if line.strip()]
        self.is_blank = not self.filled
        self._opcodes = opcodes

    @cached_property
    def is_plain(self) -> bool:
        """True if neither side has look-alike characters."""
        return self.search_text.is_ascii and all(line.isascii() for line in self.old_lines)

    @cached_property
    def change(self) -> LineChange:
        """The change, with the known opcodes or those of the difference of the lines."""
        opcodes = self._opcodes if self._opcodes is not None else list(diff_lines(self.old_lines, self.new_lines))
        return LineChange(self.old_lines, self.new_lines, opcodes)

    def find_splices(self, fold: str, *, skip_blank: bool = False) -> list[Splice]:
        """Find the blocks whose lines are equal under a fold of `FOLDS`, and whose indentation is shifted by one
        rule."""
        splices, free = [], 0
        for block in self.find_blocks(fold, skip_blank):
            shift = self.deduce_shift(block) if block.first >= free else None
            if shift is None or touches_unknown_blanks(block, self.change.opcodes):
                continue
            splices.append(self.build_splice(block, shift))
            free = block.last + 1
            if len(splices) > _MAX_SPLICES:
                break
        return splices

    def find_uneven(self) -> list[Splice]:
        """Find the blocks whose lines are equal, but whose indentation follows no single rule."""
        return list(filter(None, map(self._splice_uneven, self.find_blocks("look_alikes", skip_blank=True))))

    def _splice_uneven(self, block: MatchedBlock) -> Splice | None:
        indents = [(extract_indent(old_line), extract_indent(present)) for old_line, present in self.pair_lines(block)]
        steps = [(_compare_indents(one[0], two[0]), _compare_indents(one[1], two[1])) for one, two in pairwise(indents)]
        if touches_unknown_blanks(block, self.change.opcodes) or any(
            old_step * file_step < 0 for old_step, file_step in steps
        ):
            return None
        if len({old_indent for old_indent, _ in indents}) == 1:
            return self._splice_flat(block, indents[0])
        shift = deduce_first_shift(indents)
        if shift is None or sum(shift(f"{old_indent}x") == f"{present}x" for old_indent, present in indents) * 2 < len(
            indents
        ):
            return None
        return self._replace_block(block, replace_block(self.lines, block, [shift(line) for line in self.new_lines]))

    def _splice_flat(self, block: MatchedBlock, first: tuple[str, str]) -> Splice | None:
        """Build the splice where all indentation was lost: new lines with an indentation keep it, others take that of
        the line that they replace."""
        new_lines = [line for line in self.new_lines if line.strip()]
        if len({extract_indent(line) for line in new_lines}) > 1:
            shift = deduce_first_shift([(extract_indent(new_lines[0]), first[1])]) or str
            return self._replace_block(
                block, replace_block(self.lines, block, [shift(line) for line in self.new_lines])
            )
        if not can_merge_unindented(self.lines, block, self.old_lines, self.new_lines):
            return None
        return self._replace_block(block, merge_unindented(self.lines, block, self.old_lines, self.new_lines))

    def build_splice(self, block: MatchedBlock, shift: Shift) -> Splice:
        """Build the splice of a block, the new lines re-indented by `shift`."""
        return self._replace_block(block, merge_block(self.lines, block, self.change, shift))

    def _replace_block(self, block: MatchedBlock, replacement: str) -> Splice:
        return Splice(self.lines.starts[block.first], self.lines.find_end(block.last), replacement)

    def deduce_shift(self, block: MatchedBlock) -> Shift | None:
        """Deduce the rule that turns the indentation of the old lines into that of a block; None = there is none."""
        return deduce_shift(self.pair_lines(block), self.new_lines)

    def pair_lines(self, block: MatchedBlock) -> list[tuple[str, str]]:
        """Pair every filled old line with its line of the file."""
        bodies = self.lines.bodies
        return [(self.old_lines[index], bodies[block.mapping[index]]) for index in self.filled]

    def find_blocks(self, fold: str, skip_blank: bool) -> Iterator[MatchedBlock]:
        """Yield the blocks whose lines are equal under a fold, whatever their indentation."""
        key = FOLDS[fold]
        old_lines = [self.old_lines[index] for index in self.filled] if skip_blank else self.old_lines
        for positions in self.search_text.fold_lines(fold, skip_blank=skip_blank).find_blocks([*map(key, old_lines)]):
            yield self.map_block(positions) if skip_blank else MatchedBlock(positions[0], positions[-1], positions)

    def map_block(self, positions: Sequence[int]) -> MatchedBlock:
        """Build a block over blank lines: blank old lines are paired with those of the file, as far as there are
        any."""
        mapping = [-1] * len(self.old_lines)
        for index, position in zip(self.filled, positions, strict=True):
            mapping[index] = position
        for index in range(1, len(mapping)):
            after = mapping[index - 1] + 1
            if mapping[index] < 0 < after < len(self.lines) and not self.lines.bodies[after].strip():
                mapping[index] = after
        for index in range(self.filled[0] - 1, -1, -1):
            before = mapping[index + 1] - 1
            if before >= 0 and not self.lines.bodies[before].strip():
                mapping[index] = before
        matched = [position for position in mapping if position >= 0]
        return MatchedBlock(matched[0], matched[-1], mapping)


def _compare_indents(one: str, other: str) -> int:
    """Return 1 if the indentation grows, 0 if it stays, -1 if it shrinks."""
    first, second = len(one.expandtabs(4)), len(other.expandtabs(4))
    return (second > first) - (second < first)
