"""Parts of the question bar: tabs, rows of text and options, and the free-text input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip
from textual.widgets import Static

from tui.ask.question_rows import NO_ITEM, QuestionRow
from tui.widgets.input_line import SteadyInput
from tui.widgets.row_view import RowView

MIN_ROWS, MAX_ROWS, SCREEN_PERCENT = 4, 14, 45  # rows for text and options, and how many of a hundred of the screen's


class QuestionTabs(Static):
    """The strip of tabs."""

    @dataclass
    class TabClicked(Message):
        """Tab `at` was clicked."""

        at: int

    spans: Sequence[range] = ()

    def on_click(self, event: events.Click) -> None:
        tab_index = next((index for index, span in enumerate(self.spans) if event.x in span), None)
        if tab_index is not None:
            self.post_message(self.TabClicked(tab_index))


class QuestionBody(RowView, can_focus=False):
    """The text and the options."""

    @dataclass
    class OptionClicked(Message):
        """An option was clicked, or `TAKE_TICKED`."""

        item: int

    _lines: Sequence[QuestionRow] = ()

    def show(self, lines: Sequence[QuestionRow]) -> None:
        """Show these rows; the height follows them within `MIN_ROWS`, `MAX_ROWS` and a share of the screen."""
        self._lines = lines
        self.styles.height = min(len(lines), max(self.screen.size.height * SCREEN_PERCENT // 100, MIN_ROWS), MAX_ROWS)
        self.virtual_size = Size(0, len(lines))
        self.redraw()

    def get_row_text(self, row: int) -> str:
        return "".join(text for text, _ in self._lines[row].pieces) if row < len(self._lines) else ""

    def render_row(self, row: int, width: int, shift: int) -> Strip:
        text = self.render_text_pieces(self._lines[row].pieces, self.resolve_style("$foreground"), row=row)
        return text.crop_extend(shift, shift + width, self.visual_style.rich_style)

    def _find_rows(self, item: int) -> range:
        rows = [row for row, line in enumerate(self._lines) if line.option == item]
        return range(rows[0], rows[-1] + 1) if rows else range(0)

    def is_visible(self, item: int) -> bool:
        """True if the first row of an option is visible."""
        rows = self._find_rows(item)
        return not rows or self.scroll_offset.y <= rows[0] < self.scroll_offset.y + self.size.height

    def reveal_option(self, item: int) -> None:
        if rows := self._find_rows(item):
            self.scroll_to_region(Region(0, rows[0], 1, len(rows)), animate=False)

    def on_click(self, event: events.Click) -> None:
        row = self.scroll_offset.y + event.y
        item = self._lines[row].option if row < len(self._lines) else NO_ITEM
        if item != NO_ITEM and not self.screen.selections:
            self.post_message(self.OptionClicked(item))


class FreeTextInput(SteadyInput):
    """The input for an answer in the user's own words."""

    @dataclass
    class LinesPasted(Message):
        """The pasted text has several lines: it belongs into the prompt."""

        text: str

    def _on_paste(self, event: events.Paste) -> None:
        if "\n" not in event.text.strip():
            super()._on_paste(event)
            return
        event.prevent_default()
        event.stop()
        self.post_message(self.LinesPasted(f"{self.value}{event.text}"))
