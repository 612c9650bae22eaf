"""A scrolling page of code, drawn row by row on demand: what the review and the preview have in common.

A row is drawn when it is seen, kept in a bounded cache, and drawn once more when its syntax colours are ready. Colours
are named in theme variables and resolved by the stylesheet, so a change of theme needs nothing but an empty cache.
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

from tui.highlight import SYNTAX, Painting, Span
from tui.keymap import bindings
from tui.sight import Sights, sight
from tui.widgets.rows import placed
from tui.work import begin

KEPT_ROWS: Final = 600
SETTLED: Final = 0.03  # seconds of rest before rows are coloured: while they fly past it would only cost frames


class CodeView(ScrollView, can_focus=True):
    """Subclasses say what a row looks like (`draw`) and what its text is (`row_text`)."""

    DEFAULT_CSS = """
    CodeView { height: 1fr; background: $background; scrollbar-size-vertical: 1; scrollbar-size-horizontal: 1; }
    CodeView { scrollbar-color: $foreground 20%; scrollbar-color-hover: $foreground 35%; }
    CodeView { scrollbar-background: $background; scrollbar-background-hover: $background; }
    CodeView { scrollbar-color-active: $primary; scrollbar-background-active: $background; }
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings("code")

    def __init__(self, *, clock: Callable[[], float] = monotonic, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.sights = Sights(clock)
        self._strips: LRUCache[tuple[int, int, int], Strip] = LRUCache(KEPT_ROWS)
        self._wanted: dict[tuple[Painting, int], None] = {}
        self._is_painting = False

    # What a subclass draws

    def draw(self, row: int, width: int, shift: int) -> Strip:
        """Row `row` as `width` cells, its code scrolled `shift` cells to the left."""
        raise NotImplementedError

    def row_text(self, row: int) -> str:
        """What copying the row gives."""
        raise NotImplementedError

    def row_count(self) -> int:
        return self.virtual_size.height

    @property
    def row_width(self) -> int:
        """How many cells of a row are seen: a scrollbar covers the last one."""
        return max(self.size.width - self.show_vertical_scrollbar * self.scrollbar_size_vertical, 0)

    def things_on_screen(self, top: int, height: int) -> Iterable[Hashable]:
        """What of it can be judged and is seen while so many rows from `top` on are."""
        return ()

    # Drawing

    def render_lines(self, crop: Region) -> list[Strip]:
        strips = super().render_lines(crop)
        if sight(self) == "seen":
            self.sights.saw(self.things_on_screen(self.scroll_offset.y, self.size.height))
        return strips

    def on_hide(self) -> None:
        self.sights.lost()

    def ink(self, style: str) -> Style:
        """A style in theme variables over the background of this widget."""
        sheet = self.app.stylesheet
        return self.visual_style + sheet.parse_style(style)

    def render_line(self, y: int) -> Strip:
        shift, top = self.scroll_offset
        row, width = top + y, self.row_width
        if row >= self.row_count():
            return Strip.blank(width, self.visual_style.rich_style)
        if self.text_selection is not None:
            return self.draw(row, width, shift)
        strip = self._strips.get((row, shift, width))
        if strip is None:
            strip = self.draw(row, width, shift).adjust_cell_length(self.size.width, self.visual_style.rich_style)
            self._strips[row, shift, width] = strip
        return strip

    def redraw(self) -> None:
        """Draw every visible row anew."""
        self._strips.clear()
        self.refresh()

    def code(self, text: str, style: Style, *, row: int, spans: Sequence[Span], marks: Sequence[Span] = ()) -> Strip:
        """One line of code that can be selected. `spans` carry roles of `SYNTAX`, `marks` carry styles."""
        layers = [(start, end, SYNTAX[role]) for start, end, role in spans]
        layers += [*marks, *self._selected(row, len(text))]
        cuts = sorted({0, len(text), *(min(edge, len(text)) for layer in layers for edge in layer[:2])})
        parse = self.app.stylesheet.parse_style
        segments = []
        for start, end in pairwise(cuts):
            ink = style
            for low, high, name in layers:
                if low <= start < high:
                    ink += parse(name)
            segments.append(Segment(text[start:end], ink.rich_style))
        return placed(Strip(segments), row, self.app.console)

    def _selected(self, row: int, length: int) -> Sequence[Span]:
        selection = self.text_selection
        if selection is None or (span := selection.get_span(row)) is None:
            return ()
        start, end = span
        return ((start, length if end == -1 else end, "$foreground on $primary 60%"),)

    def paint(self, strips: Sequence[tuple[str, Style]]) -> Strip:
        """Pieces of text that are no code, with their styles, as a strip."""
        return Strip([Segment(text, style.rich_style) for text, style in strips if text])

    def draw_message(self, text: str, row: int, width: int) -> Strip:
        """Row `row` of a pane that has nothing but a calm text in its middle; its first line is a title."""
        room = max(min(width - 4, 60), 10)
        wrapped = [part.plain for part in Content(text).wrap(room)]
        index = row - max((self.size.height - len(wrapped)) // 2, 0)
        shown = wrapped[index].strip() if 0 <= index < len(wrapped) else ""
        before = " " * max((width - cells(shown)) // 2, 0)
        style = self.ink("bold $foreground 75%" if index == 0 else "$foreground 60%")
        return self.paint([(before + shown, style)]).adjust_cell_length(width, self.visual_style.rich_style)

    # Syntax colours

    def spans(self, painting: Painting | None, index: int) -> Sequence[Span]:
        """The colours of a line as far as they are known; those that are missing are asked for."""
        if painting is None or index < 0:
            return ()
        found = painting.spans(index)
        if found is None:
            self._wanted[painting, painting.chunk(index)] = None
            if not self._is_painting:
                self._is_painting = True
                begin(self, self._paint_wanted, group="highlight", exit_on_error=False)
        return found or ()

    def forget_colours(self) -> None:
        """Drop what is still waiting for colours."""
        self._wanted.clear()

    async def _paint_wanted(self) -> None:
        """Lex what is on screen, the latest wish first; what was scrolled past long ago is dropped."""
        try:
            while self._wanted:
                await asyncio.sleep(SETTLED)
                if not self._wanted:
                    break
                painting, chunk = next(reversed(self._wanted))
                del self._wanted[painting, chunk]
                while len(self._wanted) > 4:
                    del self._wanted[next(iter(self._wanted))]
                await asyncio.to_thread(painting.paint, chunk)
                self.redraw()
        finally:
            self._is_painting = False

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
        for row in range(self.row_count()):
            if (span := selection.get_span(row)) is not None:
                text = self.row_text(row)
                parts.append(text[span[0] : len(text) if span[1] == -1 else span[1]])
        return "\n".join(parts), "\n"

    # Lines that are wider than the pane

    def line_room(self) -> int:
        """How many cells of a line are seen."""
        return self.row_width

    def window(self, code: Strip, style: Style, *, shift: int, room: int) -> Strip:
        """The part of a line that is seen, with a mark at each edge behind which it goes on."""
        width, base = code.cell_length, style.rich_style
        shown = code.crop_extend(shift, shift + room, base)
        mark = style + self.app.stylesheet.parse_style("bold $accent")
        if room > 2 and width > shift + room:
            shown = Strip.join([shown.crop(0, room - 1), self.paint([("›", mark)])])
        if room > 2 and shift and width:
            shown = Strip.join([self.paint([("‹", mark)]), shown.crop(1, room)])
        return shown.adjust_cell_length(room, base)

    def action_shift(self, step: int) -> None:
        """Half a pane to the right, or to the left."""
        self.scroll_to(x=self.scroll_offset.x + step * max(self.line_room() // 2, 8), animate=False)

    def action_line_start(self) -> None:
        self.scroll_to(x=0, animate=False)

    def action_line_end(self) -> None:
        """Where the longest of the lines on screen ends."""
        top = self.scroll_offset.y
        seen = range(top, min(top + self.size.height, self.row_count()))
        widest = max((cells(self.row_text(row)) for row in seen), default=0)
        self.scroll_to(x=max(widest + 2 - self.line_room(), 0), animate=False)

    def action_top(self) -> None:
        self.scroll_to(y=0, animate=False)

    def action_bottom(self) -> None:
        self.scroll_to(y=self.max_scroll_y, animate=False)


def cells(text: str) -> int:
    """The width of a text on screen."""
    return len(text) if text.isascii() else cell_len(text)
