"""A scrolling page of code, drawn row by row on demand: the base of every row-drawing view but the transcript.

A row is drawn when it is seen, kept in a bounded cache, and drawn again when its syntax colours are ready. Styles
are
theme variables resolved by the stylesheet, so a change of theme only empties the cache.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import pairwise
from time import monotonic
from typing import ClassVar, Final

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.binding import BindingType
from textual.cache import LRUCache
from textual.content import Content
from textual.geometry import Region
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style

from tui.input.visibility import VisibleTimes, get_visibility
from tui.keymap import get_bindings
from tui.themes import SYNTAX
from tui.widgets.highlight import HighlightedText, Span
from tui.widgets.text_rows import apply_offsets
from tui.workers import start_worker

CACHED_ROWS: Final = 600
SCROLL_REST: Final = 0.03  # seconds of rest before rows are coloured: while they fly past it would only cost frames


class CodeView(ScrollView, can_focus=True):
    """Subclasses give a row's looks (`render_row`) and its text (`get_row_text`)."""

    DEFAULT_CSS = """
    CodeView { height: 1fr; background: $background; scrollbar-size-vertical: 1; scrollbar-size-horizontal: 1; }
    CodeView { scrollbar-color: $foreground 20%; scrollbar-color-hover: $foreground 35%; }
    CodeView { scrollbar-background: $background; scrollbar-background-hover: $background; }
    CodeView { scrollbar-color-active: $primary; scrollbar-background-active: $background; }
    """

    BINDINGS: ClassVar[list[BindingType]] = get_bindings("code")

    def __init__(self, *, clock: Callable[[], float] = monotonic, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.visibility = VisibleTimes(clock)
        self._strips: LRUCache[tuple[int, int, int], Strip] = LRUCache(CACHED_ROWS)
        self._pending_chunks: dict[tuple[HighlightedText, int], None] = {}
        self._is_highlighting = False

    # What a subclass draws

    def render_row(self, row: int, width: int, shift: int) -> Strip:
        """Render row `row` as `width` cells, its code scrolled `shift` cells to the left."""
        raise NotImplementedError

    def get_row_text(self, row: int) -> str:
        """Return what copying the row gives."""
        raise NotImplementedError

    def count_rows(self) -> int:
        return self.virtual_size.height

    @property
    def row_width(self) -> int:
        """Cells of a row that are seen; a scrollbar covers the last one."""
        return max(self.size.width - self.show_vertical_scrollbar * self.scrollbar_size_vertical, 0)

    def list_seen_targets(self, top: int, height: int) -> Iterable[Hashable]:
        """Return what can be judged and is wholly visible while `height` rows from `top` on are."""
        return ()

    # Drawing

    def render_lines(self, crop: Region) -> list[Strip]:
        strips = super().render_lines(crop)
        if get_visibility(self) == "seen":
            self.visibility.note_visible(self.list_seen_targets(self.scroll_offset.y, self.size.height))
        return strips

    def on_hide(self) -> None:
        self.visibility.clear()

    def resolve_style(self, style: str) -> Style:
        """Return a style in theme variables over this widget's background."""
        sheet = self.app.stylesheet
        return self.visual_style + sheet.parse_style(style)

    def render_line(self, y: int) -> Strip:
        shift, top = self.scroll_offset
        row, width = top + y, self.row_width
        if row >= self.count_rows():
            return Strip.blank(width, self.visual_style.rich_style)
        if self.text_selection is not None:
            return self.render_row(row, width, shift)
        strip = self._strips.get((row, shift, width))
        if strip is None:
            strip = self.render_row(row, width, shift).adjust_cell_length(self.size.width, self.visual_style.rich_style)
            self._strips[row, shift, width] = strip
        return strip

    def redraw(self) -> None:
        """Draw every visible row anew."""
        self._strips.clear()
        self.refresh()

    def render_code(
        self, text: str, style: Style, *, row: int, spans: Sequence[Span], marks: Sequence[Span] = ()
    ) -> Strip:
        """Render one line of code that can be selected. `spans` carry roles of `SYNTAX`, `marks` carry styles."""
        layers = [(start, end, SYNTAX[role]) for start, end, role in spans]
        layers += [*marks, *self._find_selection(row, len(text))]
        cuts = sorted({0, len(text), *(min(edge, len(text)) for layer in layers for edge in layer[:2])})
        parse = self.app.stylesheet.parse_style
        segments = []
        for start, end in pairwise(cuts):
            ink = style
            for low, high, name in layers:
                if low <= start < high:
                    ink += parse(name)
            segments.append(Segment(text[start:end], ink.rich_style))
        return apply_offsets(Strip(segments), row, self.app.console)

    def _find_selection(self, row: int, length: int) -> Sequence[Span]:
        selection = self.text_selection
        if selection is None or (span := selection.get_span(row)) is None:
            return ()
        start, end = span
        return ((start, length if end == -1 else end, "$foreground on $primary 60%"),)

    def render_pieces(self, strips: Sequence[tuple[str, Style]]) -> Strip:
        """Render pieces of (text, style) that are not code."""
        return Strip([Segment(text, style.rich_style) for text, style in strips if text])

    def render_message(self, text: str, row: int, width: int) -> Strip:
        """Render row `row` of a pane that shows only a message in its middle; the first line is its title."""
        room = max(min(width - 4, 60), 10)
        wrapped = [part.plain for part in Content(text).wrap(room)]
        index = row - max((self.size.height - len(wrapped)) // 2, 0)
        shown = wrapped[index].strip() if 0 <= index < len(wrapped) else ""
        before = " " * max((width - measure_text(shown)) // 2, 0)
        style = self.resolve_style("bold $foreground 75%" if index == 0 else "$foreground 60%")
        return self.render_pieces([(before + shown, style)]).adjust_cell_length(width, self.visual_style.rich_style)

    # Syntax colours

    def get_syntax_spans(self, painting: HighlightedText | None, index: int) -> Sequence[Span]:
        """Return the syntax colours of a line as far as known; a missing chunk is requested."""
        if painting is None or index < 0:
            return ()
        found = painting.get_spans(index)
        if found is None:
            self._pending_chunks[painting, painting.find_chunk(index)] = None
            if not self._is_highlighting:
                self._is_highlighting = True
                start_worker(self, self._highlight_pending, group="highlight", exit_on_error=False)
        return found or ()

    def cancel_highlighting(self) -> None:
        """Drop the chunks that still wait for their colours."""
        self._pending_chunks.clear()

    async def _highlight_pending(self) -> None:
        """Lex the requested chunks, newest first; only the last four are kept."""
        try:
            while self._pending_chunks:
                await asyncio.sleep(SCROLL_REST)
                if not self._pending_chunks:
                    break
                painting, chunk = next(reversed(self._pending_chunks))
                del self._pending_chunks[painting, chunk]
                while len(self._pending_chunks) > 4:
                    del self._pending_chunks[next(iter(self._pending_chunks))]
                await asyncio.to_thread(painting.highlight_chunk, chunk)
                self.redraw()
        finally:
            self._is_highlighting = False

    # Events

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._strips.clear()

    def on_resize(self, _: events.Resize) -> None:
        self._strips.clear()

    def selection_updated(self, selection: Selection | None) -> None:
        self.redraw()

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        parts = []
        for row in range(self.count_rows()):
            if (span := selection.get_span(row)) is not None:
                text = self.get_row_text(row)
                parts.append(text[span[0] : len(text) if span[1] == -1 else span[1]])
        return "\n".join(parts), "\n"

    # Lines that are wider than the pane

    def get_line_width(self) -> int:
        """Return how many cells of a line are seen."""
        return self.row_width

    def clip_line(self, code: Strip, style: Style, *, shift: int, room: int) -> Strip:
        """Return the visible part of a line, with a mark at each edge behind which it goes on."""
        width, base = code.cell_length, style.rich_style
        shown = code.crop_extend(shift, shift + room, base)
        mark = style + self.app.stylesheet.parse_style("bold $accent")
        if room > 2 and width > shift + room:
            shown = Strip.join([shown.crop(0, room - 1), self.render_pieces([("›", mark)])])
        if room > 2 and shift and width:
            shown = Strip.join([self.render_pieces([("‹", mark)]), shown.crop(1, room)])
        return shown.adjust_cell_length(room, base)

    def action_shift(self, step: int) -> None:
        """Scroll half a pane sideways; `step` 1 = right, -1 = left."""
        self.scroll_to(x=self.scroll_offset.x + step * max(self.get_line_width() // 2, 8), animate=False)

    def action_line_start(self) -> None:
        self.scroll_to(x=0, animate=False)

    def action_line_end(self) -> None:
        """Scroll to the end of the longest visible line."""
        top = self.scroll_offset.y
        seen = range(top, min(top + self.size.height, self.count_rows()))
        widest = max((measure_text(self.get_row_text(row)) for row in seen), default=0)
        self.scroll_to(x=max(widest + 2 - self.get_line_width(), 0), animate=False)

    def action_top(self) -> None:
        self.scroll_to(y=0, animate=False)

    def action_bottom(self) -> None:
        self.scroll_to(y=self.max_scroll_y, animate=False)


def measure_text(text: str) -> int:
    """Return the width of a text on screen, in cells."""
    return len(text) if text.isascii() else cell_len(text)
