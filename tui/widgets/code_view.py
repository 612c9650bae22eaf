"""A scrolling page of code: rows whose syntax colours come later, and lines that are wider than the view."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final

from textual.strip import Strip
from textual.style import Style

from tui.text import find_exposed, restore_blanks
from tui.themes.building import SYNTAX
from tui.widgets.highlight import HighlightedText, Span
from tui.widgets.row_view import Mark, RowView
from tui.widgets.text_rows import measure_text
from tui.workers import start_worker

EXPOSED: Final = "bold $text-warning"  # replacements of invisible characters
FAINT_SIGN: Final = "$foreground 25%"  # of a tab, or of a blank at the end of a line
SCROLL_REST: Final = 0.03  # seconds of rest before rows are coloured: while they fly past it would only cost frames


class CodeView(RowView):
    """Rows of code: a subclass asks for the syntax colours of a line and clips it to the view."""

    def __init__(self, *, clock: Callable[[], float] = monotonic, id: str | None = None) -> None:  # noqa: A002
        super().__init__(clock=clock, id=id)
        self._pending_chunks: dict[tuple[HighlightedText, int], None] = {}
        self._is_highlighting = False

    def render_code(
        self,
        text: str,
        style: Style,
        *,
        row: int,
        spans: Sequence[Span],
        marks: Sequence[Mark] = (),
        part: tuple[int, int] | None = None,
    ) -> Strip:
        """Render one line of code, or its characters [start, end) that are `part`. `spans` carry roles of `SYNTAX`,
        `marks` carry styles and lie above them."""
        colours = [(start, end, SYNTAX[role]) for start, end, role in spans]
        signs = [(start, end, FAINT_SIGN if is_blank else EXPOSED) for start, end, is_blank in find_exposed(text)]
        layers = [*colours, *marks, *signs]
        if part is None:
            return self.render_text(text, style, row=row, marks=layers)
        first, last = part
        inside = [(start, end, name) for start, end, name in layers if start < last and end > first]
        layers = [(max(start, first) - first, min(end, last) - first, name) for start, end, name in inside]
        return self.render_text(text[first:last], style, row=row, marks=layers)

    def copy_span(self, text: str, start: int, end: int) -> str:
        return restore_blanks(text, start, end)

    def get_syntax_spans(self, painting: HighlightedText | None, index: int) -> Sequence[Span]:
        """Return the syntax colours of a line as far as known; a missing chunk is requested."""
        if painting is None or index < 0:
            return ()
        spans = painting.get_spans(index)
        if spans is None:
            self._pending_chunks[painting, painting.find_chunk(index)] = None
            if not self._is_highlighting:
                self._is_highlighting = True
                start_worker(self, self._highlight_pending, group="highlight", exit_on_error=False)
        return spans or ()

    def cancel_highlighting(self) -> None:
        self._pending_chunks.clear()

    async def _highlight_pending(self) -> None:
        """Lex the requested chunks, newest first; older requests than the last four are dropped."""
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

    # Lines that are wider than the pane

    def get_line_width(self) -> int:
        return self.row_width

    def clip_line(self, code: Strip, style: Style, *, shift: int, room: int) -> Strip:
        """Return the visible part of a line, with a mark at each cut edge."""
        width, base = code.cell_length, style.rich_style
        strip = code.crop_extend(shift, shift + room, base)
        mark = style + self.app.stylesheet.parse_style("bold $accent")
        if room > 2 and width > shift + room:
            strip = Strip.join([strip.crop(0, room - 1), self.render_pieces([("›", mark)])])
        if room > 2 and shift and width:
            strip = Strip.join([self.render_pieces([("‹", mark)]), strip.crop(1, room)])
        return strip.adjust_cell_length(room, base)

    def action_shift(self, step: int) -> None:
        self.scroll_to(x=self.scroll_offset.x + step * max(self.get_line_width() // 2, 8), animate=False)

    def action_line_start(self) -> None:
        self.scroll_to(x=0, animate=False)

    def action_line_end(self) -> None:
        top = self.scroll_offset.y
        visible_rows = range(top, min(top + self.size.height, self.count_rows()))
        widest = max((measure_text(self.get_row_text(row)) for row in visible_rows), default=0)
        self.scroll_to(x=max(widest + 2 - self.get_line_width(), 0), animate=False)
