"""The base of views that render rows on demand: the review, plans, the debug board, questions and files.

Visible rows are rendered into a bounded cache, which a new theme clears. The transcript has another cache, because its
blocks render while they stream.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import accumulate, pairwise
from time import monotonic
from typing import Final

from rich.segment import Segment
from textual import events
from textual.cache import LRUCache
from textual.content import Content
from textual.geometry import Offset, Region
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style

from tui.input.visibility import VisibleTimes, get_visibility
from tui.keymap import get_bindings
from tui.widgets.text_rows import Piece, apply_offsets, measure_text

CACHED_ROWS: Final = 600
Mark = tuple[int, int, str]  # the characters [start, end) and their style


class RowView(ScrollView, can_focus=True):
    """Subclasses give a row's looks (`render_row`) and its text (`get_row_text`)."""

    DEFAULT_CSS = """
    RowView { height: 1fr; background: $background; scrollbar-size-vertical: 1; scrollbar-size-horizontal: 1; }
    RowView { scrollbar-color: $foreground 20%; scrollbar-color-hover: $foreground 35%; }
    RowView { scrollbar-background: $background; scrollbar-background-hover: $background; }
    RowView { scrollbar-color-active: $primary; scrollbar-background-active: $background; }
    """

    BINDINGS = get_bindings("code")

    def __init__(self, *, clock: Callable[[], float] = monotonic, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.visibility = VisibleTimes(clock)
        self._strips: LRUCache[tuple[int, int, int], Strip] = LRUCache(CACHED_ROWS)

    # Hooks for subclasses

    def render_row(self, row: int, width: int, shift: int) -> Strip:
        """Render row `row` as `width` cells, its text scrolled `shift` cells to the left."""
        raise NotImplementedError

    def get_row_text(self, row: int) -> str:
        """Return the text of a row for copying."""
        raise NotImplementedError

    def count_rows(self) -> int:
        return self.virtual_size.height

    @property
    def row_width(self) -> int:
        """Cells of a row that are seen; a scrollbar covers the last one."""
        return max(self.size.width - self.show_vertical_scrollbar * self.scrollbar_size_vertical, 0)

    def list_visible_targets(self, top: int, height: int) -> Iterable[Hashable]:
        """Return the targets that are wholly visible in `height` rows from `top` on."""
        return ()

    # Drawing

    def render_lines(self, crop: Region) -> list[Strip]:
        strips = super().render_lines(crop)
        if get_visibility(self) == "seen":
            self.visibility.note_visible(self.list_visible_targets(self.scroll_offset.y, self.size.height))
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
        self._strips.clear()
        self.refresh()

    def render_text(self, text: str, style: Style, *, row: int, marks: Sequence[Mark] = ()) -> Strip:
        """Render one line of text that can be selected."""
        layers = [*marks, *self._find_selection(row, len(text))]
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

    def render_text_pieces(self, pieces: Sequence[Piece], style: Style, *, row: int) -> Strip:
        """Render one line of (text, style name) pieces that can be selected."""
        ends = [*accumulate((len(text) for text, _ in pieces), initial=0)]
        marks = [(start, end, name) for (start, end), (_, name) in zip(pairwise(ends), pieces, strict=True) if name]
        return self.render_text("".join(text for text, _ in pieces), style, row=row, marks=marks)

    def render_styled(self, pieces: Sequence[Piece], base: Style) -> Strip:
        """Render (text, style name) pieces that are not for selection."""
        parse = self.app.stylesheet.parse_style
        return self.render_pieces([(text, base + parse(name) if name else base) for text, name in pieces])

    def _find_selection(self, row: int, length: int) -> Sequence[Mark]:
        selection = self.text_selection
        if selection is None or (span := find_selected_span(selection, row, length)) is None:
            return ()
        return ((*span, "$foreground on $primary 60%"),)

    def mark_as_gutter(self, strip: Strip, row: int) -> Strip:
        """Exclude a strip from the selection by an offset left of the row's first character."""
        return apply_offsets(strip, row, self.app.console, x=-strip.cell_length)

    def render_pieces(self, strips: Sequence[tuple[str, Style]]) -> Strip:
        """Render styled pieces that can't be selected."""
        return Strip([Segment(text, style.rich_style) for text, style in strips if text])

    def render_message(self, text: str, row: int, width: int) -> Strip:
        """Render row `row` of a pane that shows only a message in its middle; the first line is its title."""
        room = max(min(width - 4, 60), 10)
        lines = [part.plain for part in Content(text).wrap(room)]
        index = row - max((self.size.height - len(lines)) // 2, 0)
        line = lines[index].strip() if 0 <= index < len(lines) else ""
        before = " " * max((width - measure_text(line)) // 2, 0)
        style = self.resolve_style("bold $foreground 75%" if index == 0 else "$foreground 60%")
        return self.render_pieces([(before + line, style)]).adjust_cell_length(width, self.visual_style.rich_style)

    def reveal_rows(self, first: int, last: int) -> None:
        """Scroll as little as needed to see rows `first` to `last`, or the first ones if they are too many."""
        top, height = self.scroll_offset.y, max(self.size.height, 1)
        if first < top or last >= top + height:
            y = first if first < top or last - first >= height else last - height + 1
            self.scroll_to(y=y, animate=False, force=True)

    # Events

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._strips.clear()

    def on_resize(self, _: events.Resize) -> None:
        self._strips.clear()

    def selection_updated(self, selection: Selection | None) -> None:
        self.redraw()

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        lines: list[tuple[str, int, int]] = []
        first, last = (selection.start or Offset()).y, selection.end.y if selection.end else self.count_rows()
        for row in range(max(first, 0), min(last + 1, self.count_rows())):
            span = find_selected_span(selection, row, len(self.get_row_text(row)))
            if span is None or not self.is_row_copied(row):
                continue
            text, offset = self.find_source(row)
            start, end = span[0] + offset, span[1] + offset
            if offset and lines and lines[-1][2] == offset:  # the row continues the line of the one above
                start = lines.pop()[1]
            lines.append((text, start, end))
        return "\n".join(self.copy_span(*line) for line in lines), "\n"

    def find_source(self, row: int) -> tuple[str, int]:
        """Return the line of which a row shows a part, and the first character of that part."""
        return self.get_row_text(row), 0

    def copy_span(self, text: str, start: int, end: int) -> str:
        """Return the characters [start, end) of a row's text as copying them gives them."""
        return text[start:end]

    def is_row_copied(self, row: int) -> bool:
        """True if a row is text; others are left out of a copy."""
        return True

    def action_top(self) -> None:
        self.scroll_to(y=0, animate=False)

    def action_bottom(self) -> None:
        self.scroll_to(y=self.max_scroll_y, animate=False)


def find_selected_span(selection: Selection, row: int, length: int) -> tuple[int, int] | None:
    """Return the selected characters [start, end) of a row of `length`; None: it is outside. A gutter has no width."""
    if (span := selection.get_span(row)) is None:
        return None
    start, end = span
    if selection.end is not None and row == selection.end.y:
        end = max(selection.end.x, 0)
    return max(start, 0), length if end == -1 else end


class CursorView(RowView):
    """Rows with a cursor, which a subclass restricts to its rows."""

    cursor = 0

    def move_to(self, index: int) -> None:
        """Move the cursor to an entry, or to the nearest one, and scroll it into view."""
        raise NotImplementedError

    def action_move(self, step: int) -> None:
        self.move_to(self.cursor + step)

    def action_top(self) -> None:
        self.move_to(0)

    def action_bottom(self) -> None:
        self.move_to(self.count_rows())
