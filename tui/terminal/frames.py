"""Frames: only the rows that a frame is about are rendered, and only what differs from the terminal is written to it.

Textual has each widget in reach of a change render all of its rows and drops the others: a letter typed into the prompt
would render the conversation above it, the tree beside it and every container around them.

It also writes every part of every row that a widget asked to be drawn again. Of a conversation that moved up by one
row that is the whole of it, many times a second while a model speaks. Here the parts are compared with what is on the
terminal already; rows that only moved are moved by the terminal itself (DECSTBM and a line feed or a reverse index at
the margin, as every terminal since the VT100 can).

A full frame is always written in full and starts the comparison anew, so a resize, a return from another program or a
new screen heals whatever somebody else has written over ours.

Terminals disagree about how wide some letters are: emoji with modifiers, flags, Indic vowel signs. Behind them the
cursor is put where it belongs, so that nothing to their right moves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from textual._compositor import ChopsUpdate, Compositor, CompositorUpdate, LayoutUpdate
from textual.geometry import Region
from textual.strip import Strip

MAX_SHIFT: Final = 12
MIN_MOVED_ROWS: Final = 4  # rows
MAX_GAP: Final = 2  # unchanged rows inside of what may have moved
GOOD_ENOUGH_FACTOR: Final = 3

# Joiners, variants, keycaps, emoji with flags and skin tones, each with the letter before it, to which it may belong:
# what a terminal draws beyond their width is covered. Or Indic, Thai and Lao AM, Myanmar, Jamo, Khmer, up to the next
# gap: what they need beyond their width they take from that, so that no sign of a vowel is lost.
_UNSURE: Final = re.compile(
    "[^ ]?[\u200d\u20e3\ufe0f\U0001f000-\U0001faff]+"
    "|[^ ]?[\u0900-\u0dff\u0e33\u0eb3\u1000-\u11ff\u1780-\u17ff].*?(?: {2,}|$)"
)

FrameRow = dict[int, str]


class RowCompositor(Compositor):
    """Textual's, with its frames cut to the rows that have changed."""

    def _get_renders(self, crop: Region | None = None) -> Iterable[tuple[Region, Region, list[Strip]]]:
        """Yield where a widget is, which part of that is drawn, and the rows of this part; front to back."""
        if crop is None:
            yield from super()._get_renders()
            return
        rows = Region(0, crop.y, self.size.width, crop.height)
        for widget, (region, clip) in self.visible_widgets.items():
            drawn = region.intersection(clip).intersection(rows)
            if drawn and crop.overlaps(drawn):
                yield region, drawn, widget.render_lines(drawn.translate(-region.offset))


@dataclass(slots=True)
class FrameDiff:
    """The rows on the terminal: for each, the text written at each column. A row is here only if all of it is known:
    one that is moved takes all of its columns along."""

    rows: dict[int, FrameRow] = field(default_factory=dict)
    screen: object = None

    def reduce_update(self, screen: object, update: Any) -> Any:
        """Return an update of a screen as the difference to what is on the terminal; one of another kind as it is."""
        if screen is not self.screen:
            self.screen = screen
            self.rows.clear()
        match update:
            case None:
                return None
            case ChopsUpdate():
                return _PartialFrame(self, update)
            case LayoutUpdate():
                return _FullFrame(self, update)
            case _:
                self.rows.clear()
                return update


class _FullFrame(CompositorUpdate):
    def __init__(self, shown: FrameDiff, update: LayoutUpdate) -> None:
        self._frame, self._update = shown, update

    def render_segments(self, console: Console) -> str:
        """Render everything, and start a new comparison."""
        region = self._update.region
        self._update.strips = [list(row) for row in self._update.strips]
        rows = self._frame.rows
        rows.clear()
        for y, strips in enumerate(self._update.strips, region.y):
            row, x = FrameRow(), region.x
            for strip in strips:
                row[x] = render_strip(strip, x, console)
                x += strip.cell_length
            rows[y] = row
        return "\n".join(_format_cursor_move(region.x, y) + "".join(row.values()) for y, row in rows.items())


class _PartialFrame(CompositorUpdate):
    def __init__(self, shown: FrameDiff, update: ChopsUpdate) -> None:
        self._frame, self._update = shown, update

    def render_segments(self, console: Console) -> str:
        """Render the moves and parts that make the rows look as wanted."""
        rows = self._frame.rows
        wanted, pieces = self._render_rows(console)
        parts = {y for y, row in wanted.items() if row.keys() != self._update.chops[y].keys()}
        changed = _find_longest_run(sorted(y for y, row in wanted.items() if row != rows.get(y)))
        changed = changed if parts.isdisjoint(changed) else []
        move = _find_best_move(rows, wanted, changed) if len(changed) >= MIN_MOVED_ROWS else None
        written = []
        if move is not None:
            written.append(move.sequence)
            wanted = {y: wanted.get(y) or rows[y] for y in range(move.first, move.last + 1)} | wanted
            rows.update(move.apply_to(rows))
        for y in sorted(wanted):
            written += _diff_row(y, rows.pop(y, {}), wanted[y])
            if y not in parts:
                rows[y] = wanted[y]
        return "".join([*written, *pieces])

    def _render_rows(self, console: Console) -> tuple[dict[int, FrameRow], list[str]]:
        """Return the rows as they are to be, and the parts of rows that were cut and are written as they are."""
        wanted: dict[int, FrameRow] = {}
        pieces: list[str] = []
        for y, first, last in self._update.spans:
            chops = self._update.chops[y]
            row = wanted.get(y)
            if row is None:
                known = self._frame.rows.get(y, {})
                row = dict(known) if known.keys() == chops.keys() else FrameRow()
            for end, (x, strip) in zip(self._update.chop_ends[y], chops.items(), strict=False):
                if strip is None or x >= last or end <= first:
                    continue
                if first <= x < last and end <= last:
                    row[x] = render_strip(strip, x, console)
                else:
                    cropped = strip.crop(0, min(end, last) - x)
                    pieces.append(_format_cursor_move(x, y) + render_strip(cropped, x, console))
                    row.pop(x, None)
            wanted[y] = row
        return wanted, pieces


@dataclass(frozen=True, slots=True, kw_only=True)
class _RowMove:
    """The rows from `first` to `last` move up by `by` (down if it is negative)."""

    first: int
    last: int
    by: int

    @property
    def sequence(self) -> str:
        edge, step = (self.last, "\n") if self.by > 0 else (self.first, "\x1bM")
        moves = _format_cursor_move(0, edge) + step * abs(self.by)
        return f"\x1b[0m\x1b[{self.first + 1};{self.last + 1}r{moves}\x1b[r"

    def apply_to(self, rows: Mapping[int, FrameRow]) -> dict[int, FrameRow]:
        """Return the rows as they are after the move; those that came in are empty."""
        inside = range(self.first, self.last + 1)
        return {y: rows[y + self.by] if y + self.by in inside else {} for y in inside}


def render_strip(strip: Strip, x: int, console: Console) -> str:
    """Render a strip that begins in column `x`; what follows letters of unsure width stands in its own column."""
    text = strip.text
    if text.isascii() or not _UNSURE.search(text):
        return strip.render(console)
    written, at = [], 0
    for found in _UNSURE.finditer(text):
        start, end = (x + cell_len(text[:edge]) for edge in found.span())
        letters = _slice(strip, *found.span())
        blank = [Segment(" " * (end - start), letters[0].style)]  # the letters may turn out to be narrower
        written += [_render(_slice(strip, at, found.start()), console), _render(blank, console)]
        written += [f"\x1b[{start + 1}G", _render(letters, console), f"\x1b[{end + 1}G"]
        at = found.end()
    return "".join([*written, _render(_slice(strip, at, len(text)), console)])


def _slice(strip: Strip, start: int, end: int) -> list[Segment]:
    """Return the characters [start, end) of a strip."""
    found, at = [], 0
    for text, style, _ in strip:
        if part := text[max(start - at, 0) : max(end - at, 0)]:
            found.append(Segment(part, style))
        at += len(text)
    return found


def _render(segments: list[Segment], console: Console) -> str:
    return Strip(segments).render(console)


def _format_cursor_move(x: int, y: int) -> str:
    return f"\x1b[{y + 1};{x + 1}H"


def _diff_row(y: int, before: FrameRow, after: FrameRow) -> list[str]:
    return [_format_cursor_move(x, y) + text for x, text in after.items() if before.get(x) != text]


def _count_changed(before: FrameRow, after: FrameRow) -> int:
    return sum(len(text) for x, text in after.items() if before.get(x) != text)


def _find_longest_run(changed: list[int]) -> list[int]:
    """Return the longest part of the rows that has no large gap."""
    runs: list[list[int]] = [[]]
    for y in changed:
        if runs[-1] and y - runs[-1][-1] > MAX_GAP + 1:
            runs.append([])
        runs[-1].append(y)
    return max(runs, key=len)


def _find_best_move(
    rows: Mapping[int, FrameRow], wanted: Mapping[int, FrameRow], changed: list[int]
) -> _RowMove | None:
    """Find the move after which the least is left to write; None if writing alone is as short."""
    first, last = changed[0], changed[-1]
    inside = range(first, last + 1)
    if any(not rows.get(y) or (y in wanted and wanted[y].keys() != rows[y].keys()) for y in inside):
        return None
    target = {y: wanted.get(y, rows[y]) for y in inside}
    alone = least = sum(_count_changed(rows[y], target[y]) for y in changed)
    best = None
    reach = min(MAX_SHIFT, len(inside) - 1)
    for by in [sign * distance for distance in range(1, reach + 1) for sign in (1, -1)]:
        move = _RowMove(first=first, last=last, by=by)
        moved = move.apply_to(rows)
        size = len(move.sequence) + sum(_count_changed(moved[y], target[y]) for y in inside)
        if size < least:
            best, least = move, size
            if size * GOOD_ENOUGH_FACTOR < alone:
                break
    return best
