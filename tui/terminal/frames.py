"""Frames: only affected rows are rendered, and only differences from the terminal are written.

Textual lets every widget that overlaps a change render all of its rows and drops the others: a letter in the prompt
would render the conversation above it, the tree beside it and every container around them.

Textual also writes every part of every row that a widget redraws. For a conversation that scrolls by one row that is
all of it, many times a second while a model streams. This module compares the parts with the terminal's content; rows
that only moved are moved by the terminal (DECSTBM and a line feed or a reverse index at the margin, as in every
terminal since the VT100).

A full frame is always written in full and restarts the comparison, so a resize, a return from another program or a new
screen repairs foreign output.

Terminals disagree about the width of some letters: emoji with modifiers, flags, Indic vowel signs. After them the
cursor is positioned explicitly, so that nothing to their right moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from textual._compositor import ChopsUpdate, Compositor, CompositorUpdate, LayoutUpdate
from textual.geometry import Region
from textual.strip import Strip

from core.patterns import compile_lazily

MAX_SHIFT: Final = 12
MIN_MOVED_ROWS: Final = 4  # rows
MAX_GAP: Final = 2  # unchanged rows allowed within a move
GOOD_ENOUGH_FACTOR: Final = 3

# Joiners, variants, keycaps, emoji with flags and skin tones, with the letter before them, which they may modify:
# cells that a terminal draws beyond their width are overwritten. Or Indic, Thai and Lao AM, Myanmar, Jamo, Khmer, up
# to the next gap: they may need cells of that gap, so that no vowel sign is lost.
_UNSURE: Final = compile_lazily(
    "[^ ]?[\u200d\u20e3\ufe0f\U0001f000-\U0001faff]+"
    "|[^ ]?[\u0900-\u0dff\u0e33\u0eb3\u1000-\u11ff\u1780-\u17ff].*?(?: {2,}|$)"
)

FrameRow = dict[int, str]


class RowCompositor(Compositor):
    """Textual's compositor, with frames cut to the rows that have changed."""

    def _get_renders(self, crop: Region | None = None) -> Iterable[tuple[Region, Region, list[Strip]]]:
        """Yield the region of every widget, the visible part of it, and the rows of that part; front to back."""
        if crop is None:
            yield from super()._get_renders()
            return
        rows = Region(0, crop.y, self.size.width, crop.height)
        for widget, (region, clip) in self.visible_widgets.items():
            visible_region = region.intersection(clip).intersection(rows)
            if visible_region and crop.overlaps(visible_region):
                yield region, visible_region, widget.render_lines(visible_region.translate(-region.offset))


@dataclass(slots=True)
class FrameDiff:
    """The rows on the terminal: for each, the text written at every column. Only fully known rows are recorded,
    because a moved row takes all of its columns along."""

    rows: dict[int, FrameRow] = field(default_factory=dict)
    screen: object = None

    def reduce_update(self, screen: object, update: Any) -> Any:
        """Reduce an update to its difference from the terminal; updates of other kinds are returned unchanged."""
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
    def __init__(self, frame_diff: FrameDiff, update: LayoutUpdate) -> None:
        self._frame, self._update = frame_diff, update

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
    def __init__(self, frame_diff: FrameDiff, update: ChopsUpdate) -> None:
        self._frame, self._update = frame_diff, update

    def render_segments(self, console: Console) -> str:
        """Render the moves and parts that make the rows look as wanted."""
        rows = self._frame.rows
        target_rows, pieces = self._render_rows(console)
        parts = {y for y, row in target_rows.items() if row.keys() != self._update.chops[y].keys()}
        changed_rows = _find_longest_run(sorted(y for y, row in target_rows.items() if row != rows.get(y)))
        changed_rows = changed_rows if parts.isdisjoint(changed_rows) else []
        move = _find_best_move(rows, target_rows, changed_rows) if len(changed_rows) >= MIN_MOVED_ROWS else None
        output = []
        if move is not None:
            output.append(move.sequence)
            target_rows = {y: target_rows.get(y) or rows[y] for y in range(move.first, move.last + 1)} | target_rows
            rows.update(move.apply_to(rows))
        for y in sorted(target_rows):
            output += _diff_row(y, rows.pop(y, {}), target_rows[y])
            if y not in parts:
                rows[y] = target_rows[y]
        return "".join([*output, *pieces])

    def _render_rows(self, console: Console) -> tuple[dict[int, FrameRow], list[str]]:
        """Return the wanted rows, and the parts of rows that were cut and are written unchanged."""
        target_rows: dict[int, FrameRow] = {}
        pieces: list[str] = []
        for y, first, last in self._update.spans:
            chops = self._update.chops[y]
            row = target_rows.get(y)
            if row is None:
                previous_row = self._frame.rows.get(y, {})
                row = dict(previous_row) if previous_row.keys() == chops.keys() else FrameRow()
            for end, (x, strip) in zip(self._update.chop_ends[y], chops.items(), strict=False):
                if strip is None or x >= last or end <= first:
                    continue
                if first <= x < last and end <= last:
                    row[x] = render_strip(strip, x, console)
                else:
                    part = strip.crop(0, min(end, last) - x)
                    pieces.append(_format_cursor_move(x, y) + render_strip(part, x, console))
                    row.pop(x, None)
            target_rows[y] = row
        return target_rows, pieces


@dataclass(frozen=True, slots=True, kw_only=True)
class _RowMove:
    """A move of the rows `first` to `last`, up by `by` (down if negative)."""

    first: int
    last: int
    by: int

    @property
    def sequence(self) -> str:
        edge, step = (self.last, "\n") if self.by > 0 else (self.first, "\x1bM")
        moves = _format_cursor_move(0, edge) + step * abs(self.by)
        return f"\x1b[0m\x1b[{self.first + 1};{self.last + 1}r{moves}\x1b[r"

    def apply_to(self, rows: Mapping[int, FrameRow]) -> dict[int, FrameRow]:
        """Return the rows after the move; new rows are empty."""
        inside = range(self.first, self.last + 1)
        return {y: rows[y + self.by] if y + self.by in inside else {} for y in inside}


def render_strip(strip: Strip, x: int, console: Console) -> str:
    """Render a strip at column `x`; text after letters of uncertain width is positioned explicitly."""
    text = strip.text
    if text.isascii() or not _UNSURE.search(text):
        return strip.render(console)
    parts, offset = [], 0
    for match in _UNSURE.finditer(text):
        start, end = (x + cell_len(text[:edge]) for edge in match.span())
        letters = _slice(strip, *match.span())
        blank = [Segment(" " * (end - start), letters[0].style)]  # the letters may turn out to be narrower
        parts += [_render(_slice(strip, offset, match.start()), console), _render(blank, console)]
        parts += [f"\x1b[{start + 1}G", _render(letters, console), f"\x1b[{end + 1}G"]
        offset = match.end()
    return "".join([*parts, _render(_slice(strip, offset, len(text)), console)])


def _slice(strip: Strip, start: int, end: int) -> list[Segment]:
    """Return the characters [start, end) of a strip."""
    segments, offset = [], 0
    for text, style, _ in strip:
        if part := text[max(start - offset, 0) : max(end - offset, 0)]:
            segments.append(Segment(part, style))
        offset += len(text)
    return segments


def _render(segments: list[Segment], console: Console) -> str:
    return Strip(segments).render(console)


def _format_cursor_move(x: int, y: int) -> str:
    return f"\x1b[{y + 1};{x + 1}H"


def _diff_row(y: int, before: FrameRow, after: FrameRow) -> list[str]:
    return [_format_cursor_move(x, y) + text for x, text in after.items() if before.get(x) != text]


def _count_changed(before: FrameRow, after: FrameRow) -> int:
    return sum(len(text) for x, text in after.items() if before.get(x) != text)


def _find_longest_run(changed_rows: list[int]) -> list[int]:
    """Return the longest part of the rows that has no large gap."""
    runs: list[list[int]] = [[]]
    for y in changed_rows:
        if runs[-1] and y - runs[-1][-1] > MAX_GAP + 1:
            runs.append([])
        runs[-1].append(y)
    return max(runs, key=len)


def _find_best_move(
    rows: Mapping[int, FrameRow], target_rows: Mapping[int, FrameRow], changed_rows: list[int]
) -> _RowMove | None:
    """Find the move after which the least is left to write; None if writing alone is as short."""
    first, last = changed_rows[0], changed_rows[-1]
    inside = range(first, last + 1)
    if any(not rows.get(y) or (y in target_rows and target_rows[y].keys() != rows[y].keys()) for y in inside):
        return None
    target = {y: target_rows.get(y, rows[y]) for y in inside}
    alone = min_size = sum(_count_changed(rows[y], target[y]) for y in changed_rows)
    best = None
    reach = min(MAX_SHIFT, len(inside) - 1)
    for shift in [sign * distance for distance in range(1, reach + 1) for sign in (1, -1)]:
        move = _RowMove(first=first, last=last, by=shift)
        moved_rows = move.apply_to(rows)
        size = len(move.sequence) + sum(_count_changed(moved_rows[y], target[y]) for y in inside)
        if size < min_size:
            best, min_size = move, size
            if size * GOOD_ENOUGH_FACTOR < alone:
                break
    return best
