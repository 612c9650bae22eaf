"""Carry an edit over to the lines that are really there.

The edit is the difference between what a model thought it saw and what it wants. Lines it left alone keep the file's
own bytes (white space, look-alikes, endings, extra blank lines); only lines it changed are written, shifted as the
block was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise

from core.edits.lines import Lines
from core.edits.reindent import Shift, indent_of

_SMALL = 250_000
_CLOSES = ("}", ")", "]", "else", "elif", "except", "finally", "end", "fi", "done")
_OPENS = (":", "{", "(", "[", "=>", "do", "then")
Opcode = tuple[str, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Block:
    """Where given lines lie in a file. `mapping[i]` is the file line of given line i, -1 for a blank one not there."""

    first: int
    last: int
    mapping: Sequence[int]


def transplant(lines: Lines, block: Block, given: Sequence[str], wanted: Sequence[str], shift: Shift) -> str:
    """The text that takes the place of `block` (lines first to last, with the last one's ending)."""
    fallback = lines.dominant()
    used = {place for place in block.mapping if place >= 0}
    padded = _padded(lines, block, given)
    known = {line: lines.bodies[place] for line, place in zip(given, block.mapping, strict=False) if place >= 0}
    out: list[tuple[str, str]] = []
    for tag, i1, i2, j1, j2 in opcodes(given, wanted):
        if tag == "equal":
            for index in range(i1, i2):
                out += [(lines.bodies[each], lines.ends[each]) for each in _own(block, block.mapping[index], used)]
            continue
        ends = [lines.ends[place] for place in block.mapping[i1:i2] if place >= 0]
        for index in range(j1, j2):
            step = index - j1
            end = ends[step] if step < len(ends) else (out[-1][1] if out else fallback)
            line = shift(wanted[index].rstrip() if padded else wanted[index])
            own = known.get(wanted[index], line)
            out.append((own if own.rstrip() == line.rstrip() else line, end))
        if tag == "replace" and block.mapping[i2 - 1] >= 0:
            out += [(lines.bodies[each], lines.ends[each]) for each in [*_own(block, block.mapping[i2 - 1], used)][1:]]
    return _joined(out, lines.ends[block.last], fallback)


def placed_lines(lines: Lines, block: Block, wanted: Sequence[str]) -> str:
    """`wanted` as it is, with the endings of the lines whose place it takes."""
    fallback = lines.dominant()
    ends = lines.ends[block.first : block.last + 1]
    out = [(line, ends[min(index, len(ends) - 1)]) for index, line in enumerate(wanted)]
    return _joined(out, lines.ends[block.last], fallback)


def own_lines(lines: Lines, block: Block, given: Sequence[str], wanted: Sequence[str]) -> str:
    """Like `transplant`, for text without indentation: a new line gets that of the line it replaces or follows."""
    fallback = lines.dominant()
    used = {place for place in block.mapping if place >= 0}
    out: list[tuple[str, str]] = []
    indent = indent_of(lines.bodies[block.first])
    for tag, i1, i2, j1, j2 in opcodes(given, wanted):
        if tag == "equal":
            for index in range(i1, i2):
                out += [(lines.bodies[each], lines.ends[each]) for each in _own(block, block.mapping[index], used)]
            indent = indent_of(out[-1][0]) if out and out[-1][0].strip() else indent
            continue
        there = [indent_of(lines.bodies[place]) for place in block.mapping[i1:i2] if place >= 0]
        for index in range(j1, j2):
            indent = there[min(index - j1, len(there) - 1)] if there else indent
            line = wanted[index].strip()
            out.append((indent + line if line else "", fallback))
    return _joined(out, lines.ends[block.last], fallback)


def _padded(lines: Lines, block: Block, given: Sequence[str]) -> bool:
    """Whether every given line ends with white space that the file does not have."""
    pairs = [(line, lines.bodies[place]) for line, place in zip(given, block.mapping, strict=False) if place >= 0]
    filled = [(line, body) for line, body in pairs if line.strip()]
    return bool(filled) and all(line != line.rstrip() and body == body.rstrip() for line, body in filled)


def torn(block: Block, given: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether lines come or go beside blank lines that the model did not know of: it can't have said on which side."""
    places = block.mapping
    for tag, i1, i2, _, _ in opcodes(given, wanted):
        gaps = [(i1 - 1, i1)] if tag == "insert" else [(i1 - 1, i1), (i2 - 1, i2)] if tag == "delete" else []
        if tag == "replace":
            gaps = list(pairwise(range(i1, i2)))
        for above, below in gaps:
            if above >= 0 and below < len(places) and 0 <= places[above] < places[below] - 1:
                return True
    return False


def even(lines: Lines, block: Block, given: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether each new line takes the place of one, or stands between two of one depth of which the first opens
    nothing."""
    for tag, i1, i2, j1, j2 in opcodes(given, wanted):
        if tag == "equal" or (tag == "replace" and i2 - i1 == j2 - j1):
            continue
        if any(line.rstrip().endswith(_OPENS) or line.lstrip().startswith(_CLOSES) for line in given[i1:i2]):
            return False
        if tag == "delete":
            continue
        around = [block.mapping[each] for each in (i1 - 1, i2) if 0 <= each < len(given)]
        bodies = [lines.bodies[place] for place in around if place >= 0 and lines.bodies[place].strip()]
        if len(bodies) < 2 or len({indent_of(body) for body in bodies}) > 1 or bodies[0].rstrip().endswith(_OPENS):
            return False
        if any(line.rstrip().endswith(_OPENS) for line in wanted[j1:j2]):
            return False
    return True


def _own(block: Block, place: int, used: set[int]) -> Iterator[int]:
    """A line of the file, and the blank ones after it that the model did not know of."""
    if place < 0:
        return
    yield place
    while place + 1 <= block.last and place + 1 not in used:
        place += 1
        yield place


def _joined(out: list[tuple[str, str]], last_end: str, fallback: str) -> str:
    if not out:
        return ""
    *body, (tail, _) = out
    text = "".join(line + (end or fallback) for line, end in body)
    return text + tail + last_end


def opcodes(given: Sequence[str], wanted: Sequence[str]) -> Iterator[Opcode]:
    """Like `SequenceMatcher.get_opcodes`; the shared head and tail come off first, a huge middle is not compared."""
    head = shared_head(given, wanted)
    tail = shared_head(given[head:][::-1], wanted[head:][::-1])
    i2, j2 = len(given) - tail, len(wanted) - tail
    if head:
        yield "equal", 0, head, 0, head
    if (i2 - head) * (j2 - head) > _SMALL:
        yield "replace", head, i2, head, j2
    else:
        inner = SequenceMatcher(None, given[head:i2], wanted[head:j2], autojunk=False).get_opcodes()
        for tag, a1, a2, b1, b2 in inner:
            yield tag, a1 + head, a2 + head, b1 + head, b2 + head
    if tail:
        yield "equal", i2, len(given), j2, len(wanted)


def shared_head(first: Sequence[str], second: Sequence[str]) -> int:
    """How many lines both begin with."""
    count = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        count += 1
    return count
