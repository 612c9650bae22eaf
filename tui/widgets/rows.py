"""Rows: what a transcript line is made of before it gets colours, and how text is broken into them.

A piece is `(text, role)`; a role is a name of the palette ("" = plain), never a colour. A row knows which part of it is
logical text: `lead` characters at its start are decoration, and `soft` says that the row goes on from the one before
without a line break of its own. So what is copied has neither gutters nor wraps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from rich.cells import cell_len
from rich.console import COLOR_SYSTEMS, Console
from textual.strip import Strip

Piece = tuple[str, str]
GUTTER: Final[Piece] = ("  ", "")
INDENT: Final[list[Piece]] = [("    ", "")]

_WORD = re.compile(r"\s*\S+|\s+$")


class Row:
    """One screen line. `joint` is what the wrap took away before a soft row; `fill` the role of its background; `lines`
    the lines of the text that it was laid out from, [first, last) counted from 0, where that is known."""

    __slots__ = ("at", "fill", "joint", "lead", "lines", "pieces", "soft", "strip")

    def __init__(
        self, pieces: Sequence[Piece], *, lead: int = 0, soft: bool = False, joint: str = "", fill: str = ""
    ) -> None:
        self.pieces = pieces
        self.lead = lead
        self.soft = soft
        self.joint = joint
        self.fill = fill
        self.lines = (0, 0)
        self.strip: Strip | None = None  # as it was drawn last, for row `at` of all
        self.at = -1

    @property
    def text(self) -> str:
        """The row as it is drawn."""
        return "".join(piece[0] for piece in self.pieces)


def placed(strip: Strip, y: int, console: Console) -> Strip:
    """A strip that knows that it is row `y` of all, for the selection.

    With its place each piece has a style of its own, which is told the codes of the one that it came from: Textual
    would work them out for each, and keep them.
    """
    colors = COLOR_SYSTEMS[console.color_system or "truecolor"]
    found = strip.apply_offsets(0, y)
    for piece, plain in zip(found, strip, strict=True):
        if piece.style is not None and plain.style is not None:
            piece.style._ansi = Strip.render_ansi(plain.style, colors)
    return found


def breaks(text: str, width: int) -> list[tuple[int, int]]:
    """Where to break one line into lines of at most `width` cells: `[start, end)` of each, without the space between.

    Words are kept whole where they fit a line; a longer one is cut.
    """
    width = max(width, 2)
    if len(text) <= width and (text.isascii() or cell_len(text) <= width):
        return [(0, len(text))]
    spans: list[tuple[int, int]] = []
    start, end, used = 0, 0, 0
    for match in _WORD.finditer(text):
        word = match.group()
        size = len(word) if word.isascii() else cell_len(word)
        if used + size <= width:
            end, used = match.end(), used + size
            continue
        if used:
            spans.append((start, end))
            start = match.start() + len(word) - len(word.lstrip())
        for cut in _cuts(text, start, match.end(), width):
            spans.append((start, cut))
            start = cut
        end = match.end()
        used = cell_len(text[start:end])
    spans.append((start, end))
    return spans


def cells(pieces: Iterable[Piece]) -> int:
    """How many columns they take on one line."""
    return sum(cell_len(text) for text, _ in pieces)


def _cuts(text: str, start: int, end: int, width: int) -> Iterable[int]:
    """Positions at which a word that is longer than a line has to be cut."""
    if text[start:end].isascii():
        yield from range(start + width, end, width)
        return
    used = 0
    for position in range(start, end):
        size = cell_len(text[position])
        if used + size > width and used:
            yield position
            used = 0
        used += size


def part(pieces: Sequence[Piece], start: int, end: int) -> list[Piece]:
    """The characters `[start, end)` of a line of pieces."""
    found: list[Piece] = []
    position = 0
    for text, role in pieces:
        low, high = max(start - position, 0), min(end - position, len(text))
        if low < high:
            found.append((text[low:high], role))
        position += len(text)
        if position >= end:
            break
    return found


def wrap(
    pieces: Sequence[Piece], width: int, *, first: Sequence[Piece] = (), rest: Sequence[Piece] = (), fill: str = ""
) -> list[Row]:
    """Break one logical line into rows of at most `width` cells. `first` and `rest` are the decoration before them."""
    text = "".join(piece[0] for piece in pieces)
    lead, rest_lead = sum(len(piece[0]) for piece in first), sum(len(piece[0]) for piece in rest)
    spans = breaks(text, width - max(lead, rest_lead))
    rows = [Row([*first, *part(pieces, *spans[0])], lead=lead, fill=fill)]
    for before, span in pairwise(spans):
        joint = text[before[1] : span[0]]
        rows.append(Row([*rest, *part(pieces, *span)], lead=rest_lead, soft=True, joint=joint, fill=fill))
    return rows


def wrap_text(
    text: str, width: int, role: str, *, first: Sequence[Piece] = (), rest: Sequence[Piece] = (), fill: str = ""
) -> list[Row]:
    """Lines of plain text as rows; `first` is the decoration of the very first row, `rest` that of all others."""
    rows: list[Row] = []
    for index, line in enumerate(text.split("\n")):
        rows += wrap([(line, role)], width, first=rest if index else first, rest=rest, fill=fill)
    return rows


def logical(rows: Sequence[Row], start: int = 0, end: int | None = None) -> str:
    """The text of rows without decoration and wraps, from character `start` of the first to `end` of the last."""
    parts: list[str] = []
    for index, row in enumerate(rows):
        text = row.text
        high = len(text) if end is None or index < len(rows) - 1 else min(end, len(text))
        low = max(row.lead, start if index == 0 else 0)
        if index:
            parts.append(row.joint if row.soft else "\n")
        parts.append(text[low:high])
    return "".join(parts)
