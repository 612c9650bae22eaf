"""Blocks whose middle was left out with a line of three dots.

Where both sides have the same number of such lines, what they stand for stays as it is, and the pieces around are
edited. Where only the old side has them, everything from the first piece to the last is replaced. A piece has to be
the only one of its kind where it may stand: the first in the whole file, a following one within the indentation of the
first, so that no region runs on into the next function.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from core.edits.indentation import measure_depth
from core.edits.matching.block_merge import MatchedBlock
from core.edits.matching.line_edit import LineEdit
from core.edits.matching.search_text import SearchText
from core.text.lines import Splice, split_closed

_DOTS = re.compile(r"\s*(?:(?:#|//|--|/\*|<!--|\{/\*|%|;)\s*)?(?:\.\.\.|…)\s*(?:\*/\}?|-->)?\s*$")
_FOLDS = ("trailing_space", "indentation", "look_alikes")


def find_elided(search_text: SearchText, old: str, new: str) -> list[Splice]:
    """Find the splices of the pieces (or the one of the whole region); none when there are no dots or no one place."""
    olds, news = _split_pieces(old), _split_pieces(new)
    if len(olds) < 2 or not olds[0].strip() or not olds[-1].strip():
        return []
    edits = [LineEdit(search_text, piece, piece) for piece in olds]
    blocks = _locate_pieces(edits)
    if not blocks or len(news) not in (1, len(olds)):
        return []
    if len(news) > 1:
        return _splice_pieces(search_text, olds, news, blocks)
    shift = edits[0].deduce_shift(blocks[0])
    if shift is None:
        return []
    lines, first, last = search_text.lines, blocks[0].first, blocks[-1].last
    text = lines.find_dominant_ending().join(map(shift, LineEdit(search_text, old, new).wanted))
    return [Splice(lines.starts[first], lines.find_end(last), text + (lines.ends[last] if text else ""))]


def _splice_pieces(
    search_text: SearchText, olds: Sequence[str], news: Sequence[str], blocks: Sequence[MatchedBlock]
) -> list[Splice]:
    splices = []
    for old, new, block in zip(olds, news, blocks, strict=True):
        edit = LineEdit(search_text, old, new)
        shift = edit.deduce_shift(block)
        if shift is None:
            return []
        splices.append(edit.build_splice(block, shift))
    return splices


def _split_pieces(text: str) -> list[str]:
    pieces: list[list[str]] = [[]]
    for line in split_closed(text)[0]:
        if _DOTS.match(line):
            pieces.append([])
        else:
            pieces[-1].append(f"{line}\n")
    return ["".join(piece) for piece in pieces]


def _locate_pieces(edits: Sequence[LineEdit]) -> list[MatchedBlock]:
    if any(edit.is_blank for edit in edits):
        return []
    blocks: list[MatchedBlock] = []
    for edit in edits:
        start = blocks[-1].last + 1 if blocks else 0
        stop = _find_scope_end(edit, blocks[0].first, start) if blocks else len(edit.lines)
        block = _find_only(edit, start, stop)
        if block is None:
            return []
        blocks.append(block)
    return blocks


def _find_only(edit: LineEdit, start: int, stop: int) -> MatchedBlock | None:
    for fold in _FOLDS:
        blocks = [
            block
            for block in edit.find_blocks(fold, True)
            if start <= block.first and block.last < stop and edit.deduce_shift(block) is not None
        ]
        if blocks:
            return blocks[0] if len(blocks) == 1 else None
    return None


def _find_scope_end(edit: LineEdit, first: int, start: int) -> int:
    """The line after the scope that `first` opens: the next one less indented, or opening another at the same depth."""
    bodies = edit.lines.bodies
    depth = measure_depth(bodies[first])
    for number in range(start, len(bodies)):
        line_depth = measure_depth(bodies[number])
        if bodies[number].strip() and line_depth < depth:
            return number
        if line_depth == depth and re.match(r"\s*[^\W\d]", bodies[number]) and number > start:
            return number + 1
    return len(bodies)
