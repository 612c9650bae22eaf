"""An edit carried over to the lines that are really there.

The edit is the difference between what a model thought it saw and what it wants. Lines it left alone keep the file's
own bytes (white space, look-alikes, endings, extra blank lines); only lines it changed are written, shifted as the
block was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from core.edits.indentation import Shift, extract_indent
from core.text.lines import Opcode, TextLines, diff_lines

_CLOSES = ("}", ")", "]", "else", "elif", "except", "finally", "end", "fi", "done")
_OPENS = (":", "{", "(", "[", "=>", "do", "then")


@dataclass(frozen=True)
class MatchedBlock:
    """Place of given lines in a file. `mapping[i]` is the file line of given line i, -1 for a blank one not there."""

    first: int
    last: int
    mapping: Sequence[int]

    @cached_property
    def places(self) -> frozenset[int]:
        """The lines of the file that a given line stands for."""
        return frozenset(self.mapping)


class LineChange(NamedTuple):
    """Given lines, the lines that are wanted in their place, and what becomes what."""

    given: Sequence[str]
    wanted: Sequence[str]
    opcodes: Sequence[Opcode]


def merge_block(lines: TextLines, block: MatchedBlock, change: LineChange, shift: Shift) -> str:
    """Return the text that takes the place of `block` (lines first to last, with the last one's ending)."""
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
    """Return `new_lines` as it is, with the endings of the lines whose place it takes."""
    ends = lines.ends[block.first : block.last + 1]
    return _join_lines(lines, block, [(line, ends[min(index, len(ends) - 1)]) for index, line in enumerate(new_lines)])


def merge_unindented(lines: TextLines, block: MatchedBlock, old_lines: Sequence[str], new_lines: Sequence[str]) -> str:
    """Merge like `merge_block`, for text without indentation: a line gets that of the one it replaces or follows."""
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
    """True if every given line ends with white space that the file does not have."""
    pairs = [
        (line, lines.bodies[position])
        for line, position in zip(old_lines, block.mapping, strict=False)
        if position >= 0
    ]
    nonblank_pairs = [(line, body) for line, body in pairs if line.strip()]
    return bool(nonblank_pairs) and all(
        line != line.rstrip() and body == body.rstrip() for line, body in nonblank_pairs
    )


def is_torn(block: MatchedBlock, opcodes: Sequence[Opcode]) -> bool:
    """True if lines come or go beside blank lines that the model did not know of: it can't have said on which side."""
    places = block.mapping
    for tag, i1, i2, _, _ in opcodes:
        gaps = [(i1 - 1, i1)] if tag == "insert" else [(i1 - 1, i1), (i2 - 1, i2)] if tag == "delete" else []
        if tag == "replace":
            gaps = list(pairwise(range(i1, i2)))
        for above, below in gaps:
            if above >= 0 and below < len(places) and 0 <= places[above] < places[below] - 1:
                return True
    return False


def is_even(lines: TextLines, block: MatchedBlock, old_lines: Sequence[str], new_lines: Sequence[str]) -> bool:
    """True if each new line takes the place of one, or stands between two of one depth, the first opening nothing."""
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


def _take_lines(lines: TextLines, block: MatchedBlock, places: Sequence[int]) -> list[tuple[str, str]]:
    """The (body, ending) of each line of the file, and of the blank ones after it that the model did not know of."""
    pairs = []
    for position in places:
        stop = position + 1
        while position >= 0 and stop <= block.last and stop not in block.places:
            stop += 1
        pairs += [(lines.bodies[index], lines.ends[index]) for index in range(position, stop) if position >= 0]
    return pairs


def _join_lines(lines: TextLines, block: MatchedBlock, output: list[tuple[str, str]]) -> str:
    """The text of (line, ending) pairs, of which the last one ends as the block does; "" = the usual ending."""
    fallback = lines.find_dominant_ending()
    text = "".join(line + (end or fallback) for line, end in output[:-1])
    return text + output[-1][0] + lines.ends[block.last] if output else ""
