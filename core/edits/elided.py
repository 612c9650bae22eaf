"""Blocks whose middle was left out with a line of three dots.

Where both sides have the same number of such lines, what they stand for stays as it is, and the pieces around are
edited. Where only the old side has them, everything from the first piece to the last is replaced. A piece has to be
the only one of its kind where it may stand: the first in the whole file, a following one within the indentation of the
first, so that no region runs on into the next function.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from core.edits.haystack import Haystack
from core.edits.line_edit import LineEdit, Splice, as_lines
from core.edits.transplant import Block

_DOTS = re.compile(r"\s*(?:(?:#|//|--|/\*|<!--|\{/\*|%|;)\s*)?(?:\.\.\.|…)\s*(?:\*/\}?|-->)?\s*$")
_FOLDS = ("trailing_space", "indentation", "look_alikes")


def elided(hay: Haystack, old: str, new: str) -> list[Splice]:
    """The splices of the pieces (or the one of the whole region); none when there are no dots or no one place."""
    olds, news = _pieces(old), _pieces(new)
    if len(olds) < 2 or not olds[0].strip() or not olds[-1].strip():
        return []
    edits = [LineEdit(hay, piece, piece) for piece in olds]
    found = _located(edits)
    if not found:
        return []
    if len(news) == len(olds):
        return _piecewise(hay, olds, news, found)
    if len(news) > 1:
        return []
    whole = LineEdit(hay, old, new)
    first, last = found[0], found[-1]
    mapping = [-1] * len(whole.given)
    mapping[: len(first.mapping)] = first.mapping
    mapping[len(mapping) - len(last.mapping) :] = last.mapping
    block = Block(first.first, last.last, mapping)
    shift = edits[0].shift(first)
    if shift is None:
        return []
    wanted = [shift(line) for line in whole.wanted]
    return [Splice(hay.lines.starts[block.first], hay.lines.stop(block.last), _lines(hay, wanted, block.last))]


def _piecewise(hay: Haystack, olds: Sequence[str], news: Sequence[str], found: Sequence[Block]) -> list[Splice]:
    splices = []
    for old, new, block in zip(olds, news, found, strict=True):
        edit = LineEdit(hay, old, new)
        shift = edit.shift(block)
        if shift is None:
            return []
        splices.append(edit.splice(block, shift))
    return splices


def _pieces(text: str) -> list[str]:
    pieces: list[list[str]] = [[]]
    for line in as_lines(text)[0]:
        if _DOTS.match(line):
            pieces.append([])
        else:
            pieces[-1].append(f"{line}\n")
    return ["".join(piece) for piece in pieces]


def _located(edits: Sequence[LineEdit]) -> list[Block]:
    if any(edit.blank for edit in edits):
        return []
    first = _only(edits[0], 0, len(edits[0].lines))
    found = [first] if first else []
    for edit in edits[1:]:
        if not found:
            return []
        place = found[-1].last + 1
        block = _only(edit, place, _scope(edit, found[0].first, place))
        if block is None:
            return []
        found.append(block)
    return found


def _only(edit: LineEdit, start: int, stop: int) -> Block | None:
    for fold in _FOLDS:
        blocks = [
            block
            for block in edit.blocks(fold, True)
            if start <= block.first and block.last < stop and edit.shift(block) is not None
        ]
        if blocks:
            return blocks[0] if len(blocks) == 1 else None
    return None


def _scope(edit: LineEdit, first: int, start: int) -> int:
    """The line after the scope that the line `first` opens: the next one that is indented less, or the one that opens
    another scope at the same depth."""
    bodies = edit.lines.bodies
    depth = _depth(bodies[first])
    for number in range(start, len(bodies)):
        line = bodies[number]
        if not line.strip():
            continue
        if _depth(line) < depth or (_depth(line) == depth and re.match(r"\s*[^\W\d]", line) and number > start):
            return number if _depth(line) < depth else number + 1
    return len(bodies)


def _depth(line: str) -> int:
    return len(line.expandtabs(4)) - len(line.expandtabs(4).lstrip())


def _lines(hay: Haystack, wanted: Sequence[str], last: int) -> str:
    end = hay.lines.dominant()
    text = end.join(wanted)
    return text + (hay.lines.ends[last] if text else "")
