"""Rows as lines of (text, role) pieces without colours, and the wrapping of text into them.

A role is a palette name ("" = plain), never a colour. `lead` characters at the start of a row are decoration, and a
`soft` row continues the previous one without a line break: copied text has neither gutters nor wraps.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

from rich.cells import cell_len, split_graphemes
from rich.console import COLOR_SYSTEMS, Console
from textual.strip import Strip

from core.patterns import compile_lazily

Piece = tuple[str, str]
GUTTER: Final[Piece] = ("  ", "")
INDENT: Final[list[Piece]] = [("    ", "")]

_WORD = compile_lazily(r"\s*\S+|\s+$")


@dataclass(slots=True, eq=False)
class TextRow:
    """One screen line. `joint`: the text that wrapping removed before a soft row; `lines`: its source [first, last)
    from 0."""

    pieces: Sequence[Piece]
    lead: int = 0
    soft: bool = False
    joint: str = ""
    fill: str = ""
    lines: tuple[int, int] = (0, 0)
    strip: Strip | None = None  # cached strip, as row `at`
    at: int = -1

    @property
    def text(self) -> str:
        return "".join(piece[0] for piece in self.pieces)


def apply_offsets(strip: Strip, y: int, console: Console, *, x: int = 0) -> Strip:
    """Attach the selection offsets of row `y` from character `x` on to a strip.

    Segments reuse their rendered style codes, which Textual would otherwise compute again.
    """
    colors = COLOR_SYSTEMS[console.color_system or "truecolor"]
    offset_strip = strip.apply_offsets(x, y)
    for piece, plain in zip(offset_strip, strip, strict=True):
        if piece.style is not None and plain.style is not None:
            piece.style._ansi = Strip.render_ansi(plain.style, colors)
    return offset_strip


def find_line_breaks(text: str, width: int) -> list[tuple[int, int]]:
    """Return the [start, end) of lines of at most `width` cells, without the space between; longer words are cut."""
    width = max(width, 2)
    if len(text) <= width and (text.isascii() or cell_len(text) <= width):
        return [(0, len(text))]
    spans: list[tuple[int, int]] = []
    start, end, line_width = 0, 0, 0
    for match in _WORD.finditer(text):
        word = match.group()
        size = len(word) if word.isascii() else cell_len(word)
        if line_width + size <= width:
            end, line_width = match.end(), line_width + size
            continue
        if line_width:
            spans.append((start, end))
            start = match.start() + len(word) - len(word.lstrip())
        for cut in _cut_word(text, start, match.end(), width):
            spans.append((start, cut))
            start = cut
        end = match.end()
        line_width = cell_len(text[start:end])
    spans.append((start, end))
    return spans


def find_soft_breaks(text: str, width: int, most_rows: int) -> list[tuple[int, int]]:
    """Return the [start, end) of the rows of at most `width` cells that a line of code takes: nothing between them is
    left out, and no letter is parted from its accents. Beyond `most_rows` the rest of the text is in none of them."""
    width = max(width, 2)
    if len(text) <= width and text.isascii():
        return [(0, len(text))]
    edges: Sequence[int] = range(len(text) + 1)  # the positions of whole letters, and the cells before each
    cells: Sequence[int] = edges
    if not text.isascii():
        letters, _ = split_graphemes(text)
        edges = [*(start for start, _, _ in letters), len(text)]
        cells = [*accumulate((size for _, _, size in letters), initial=0)]
    spans: list[tuple[int, int]] = []
    first, last = 0, len(edges) - 1
    while first < last and len(spans) < most_rows:
        limit = max(bisect_right(cells, cells[first] + width) - 1, first + 1)
        end = limit if limit == last else _choose_break(text, edges, first, limit)
        spans.append((edges[first], edges[end]))
        first = end
    return spans


def _choose_break(text: str, edges: Sequence[int], first: int, limit: int) -> int:
    """Return the letter at which the next row begins: after a blank or else a sign, if that fills half of the row."""
    start, end = edges[first + (limit - first) // 2], edges[limit]
    for signs in (" ", ",;()[]{}"):
        position = max(text.rfind(sign, start, end) for sign in signs) + 1
        index = bisect_left(edges, position)
        if position and edges[index] == position:
            return index
    return limit


def measure_text(text: str) -> int:
    """Return the width of a text on screen, in cells."""
    return len(text) if text.isascii() else cell_len(text)


def measure_pieces(pieces: Iterable[tuple[str, object]]) -> int:
    """Return the width of pieces on one line, in cells."""
    return sum(measure_text(text) for text, _ in pieces)


def _cut_word(text: str, start: int, end: int, width: int) -> Iterable[int]:
    """Yield the positions at which a word longer than a line is cut."""
    if text[start:end].isascii():
        yield from range(start + width, end, width)
        return
    line_width = 0
    for position in range(start, end):
        size = cell_len(text[position])
        if line_width + size > width and line_width:
            yield position
            line_width = 0
        line_width += size


def slice_pieces(pieces: Sequence[Piece], start: int, end: int) -> list[Piece]:
    """Return the characters [start, end) of a line of pieces."""
    sliced_pieces: list[Piece] = []
    position = 0
    for text, role in pieces:
        low, high = max(start - position, 0), min(end - position, len(text))
        if low < high:
            sliced_pieces.append((text[low:high], role))
        position += len(text)
        if position >= end:
            break
    return sliced_pieces


def wrap_pieces(
    pieces: Sequence[Piece], width: int, *, first: Sequence[Piece] = (), rest: Sequence[Piece] = (), fill: str = ""
) -> list[TextRow]:
    """Break one logical line into rows of at most `width` cells; `first` and `rest` are decoration before them."""
    text = "".join(piece[0] for piece in pieces)
    lead, rest_lead = sum(len(piece[0]) for piece in first), sum(len(piece[0]) for piece in rest)
    spans = find_line_breaks(text, width - max(lead, rest_lead))
    rows = [TextRow([*first, *slice_pieces(pieces, *spans[0])], lead=lead, fill=fill)]
    for before, span in pairwise(spans):
        joint = text[before[1] : span[0]]
        rows.append(TextRow([*rest, *slice_pieces(pieces, *span)], lead=rest_lead, soft=True, joint=joint, fill=fill))
    return rows


def wrap_text(
    text: str, width: int, role: str, *, first: Sequence[Piece] = (), rest: Sequence[Piece] = (), fill: str = ""
) -> list[TextRow]:
    """Break lines of plain text into rows; `first` decorates the very first row, `rest` all others."""
    rows: list[TextRow] = []
    for index, line in enumerate(text.split("\n")):
        rows += wrap_pieces([(line, role)], width, first=rest if index else first, rest=rest, fill=fill)
    return rows


def join_logical_text(rows: Sequence[TextRow], start: int = 0, end: int | None = None) -> str:
    """Return the text of rows from `start` in the first row to `end` in the last, without decoration and wraps."""
    parts: list[str] = []
    for index, row in enumerate(rows):
        text = row.text
        high = len(text) if end is None or index < len(rows) - 1 else min(end, len(text))
        low = max(row.lead, start if index == 0 else 0)
        if index:
            parts.append(row.joint if row.soft else "\n")
        parts.append(text[low:high])
    return "".join(parts)
