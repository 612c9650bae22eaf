"""The parts of the bar that puts questions: the strip of tabs, the rows of text and options, the line for own words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip
from textual.widgets import Input, Static

from tui.widgets.code_view import CodeView
from tui.widgets.question_rows import NO_ITEM, Line

LEAST, MOST, SHARE = 4, 14, 45  # rows for text and options, and how many of a hundred of the screen's


class QuestionTabs(Static):
    """The strip of tabs."""

    @dataclass
    class Picked(Message):
        """The user clicked on the tab number `at`."""

        at: int

    spans: Sequence[range] = ()

    def on_click(self, event: events.Click) -> None:
        """Go to the tab under the mouse."""
        at = next((index for index, span in enumerate(self.spans) if event.x in span), None)
        if at is not None:
            self.post_message(self.Picked(at))


class QuestionBody(CodeView, can_focus=False):
    """The text and the options."""

    @dataclass
    class Picked(Message):
        """The user clicked on an option, or on `TAKE`."""

        item: int

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._lines: Sequence[Line] = ()

    def show(self, lines: Sequence[Line]) -> None:
        """Draw these rows; the widget becomes as high as they are, as long as the conversation keeps its room."""
        self._lines = lines
        self.styles.height = min(len(lines), max(self.screen.size.height * SHARE // 100, LEAST), MOST)
        self.virtual_size = Size(0, len(lines))
        self.redraw()

    def row_text(self, row: int) -> str:
        return "".join(text for text, _ in self._lines[row].pieces) if row < len(self._lines) else ""

    def draw(self, row: int, width: int, shift: int) -> Strip:
        marks, at = [], 0
        for text, style in self._lines[row].pieces:
            marks.append((at, at + len(text), style)) if style else None
            at += len(text)
        code = self.code(self.row_text(row), self.ink("$foreground"), row=row, spans=(), marks=marks)
        return code.crop_extend(shift, shift + width, self.visual_style.rich_style)

    def _rows_of(self, item: int) -> range:
        rows = [row for row, line in enumerate(self._lines) if line.item == item]
        return range(rows[0], rows[-1] + 1) if rows else range(0)

    def is_seen(self, item: int) -> bool:
        """Whether an option is in sight, the beginning of it at least."""
        rows = self._rows_of(item)
        return not rows or self.scroll_offset.y <= rows[0] < self.scroll_offset.y + self.size.height

    def reveal(self, item: int) -> None:
        """Bring an option into sight."""
        if rows := self._rows_of(item):
            self.scroll_to_region(Region(0, rows[0], 1, len(rows)), animate=False)

    def on_click(self, event: events.Click) -> None:
        """Choose the option under the mouse."""
        row = self.scroll_offset.y + event.y
        item = self._lines[row].item if row < len(self._lines) else NO_ITEM
        if item != NO_ITEM and not self.screen.selections:
            self.post_message(self.Picked(item))


class OwnWords(Input):
    """The line for an answer of the user's own."""

    @dataclass
    class Long(Message):
        """What was pasted has several lines: it belongs into the prompt."""

        text: str

    def _on_paste(self, event: events.Paste) -> None:
        if "\n" not in event.text.strip():
            super()._on_paste(event)
            return
        event.prevent_default()
        event.stop()
        self.post_message(self.Long(f"{self.value}{event.text}"))
