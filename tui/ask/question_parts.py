"""The parts of the question bar: tabs, rows of text and options, and the free-text input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip
from textual.widgets import Static

from core.patterns import compile_lazily
from core.protocol.documents import Question, QuestionAnswer
from core.protocol.events import QuestionAsked
from tui.text import expose_line, expose_text, fit_line, shorten_lines
from tui.widgets.input_line import SteadyInput
from tui.widgets.row_view import RowView
from tui.widgets.text_rows import Piece, measure_pieces, wrap_pieces, wrap_text

MUTED: Final = "$foreground 60%"
TAB_WIDTH: Final = 18
NO_ITEM: Final = -1
TAKE_TICKED: Final = -2  # the row that accepts the ticked options, for the mouse
_NUMBERED: Final = compile_lazily(r"q?\d*")
MIN_ROWS, MAX_ROWS, SCREEN_PERCENT = 4, 14, 45  # rows for text and options, and their maximum percentage of the screen


@dataclass(slots=True)
class AnswerDraft:
    """The user's answer to one question so far; `marked` may be one past the options: free text."""

    marked: int = 0
    ticked: set[str] = field(default_factory=set)
    text: str = ""
    answer: QuestionAnswer | None = None

    @classmethod
    def from_question(cls, question: Question) -> AnswerDraft:
        """Mark the recommended option, and tick it where several may hold."""
        best = [index for index, option in enumerate(question.options) if option.recommended]
        ticked_ids = {question.options[index].id for index in best} if question.allow_multiple else set()
        return cls(marked=best[0] if best else 0, ticked=ticked_ids)


class QuestionRow(NamedTuple):
    """One row, and the option that a click on it chooses."""

    pieces: Sequence[Piece]
    option: int = NO_ITEM


def format_tab_label(question: Question) -> str:
    """Return the header, else an id that isn't just a number, else the start of the question."""
    if question.header:
        return fit_line(question.header, TAB_WIDTH)
    name = question.id.replace("_", " ").replace("-", " ")
    return fit_line(question.text if _NUMBERED.fullmatch(name) else name[:1].upper() + name[1:], TAB_WIDTH)


def render_tabs(
    request: QuestionAsked, choices: Sequence[AnswerDraft], current_index: int, width: int
) -> tuple[list[Piece], list[range]]:
    """Return the strip of tabs and the columns of each; an empty range for a hidden tab."""
    names = [
        f" {format_tab_label(question)}{' ✓' if choice.answer else ''} "
        for question, choice in zip(request.questions, choices, strict=True)
    ]
    count = f"{current_index + 1}/{len(names)} "
    first, last = _fit_tabs([measure_pieces([(name, "")]) for name in names], current_index, width - len(count) - 4)
    pieces: list[Piece] = [(count, MUTED), ("‹ " if first else "", MUTED)]
    spans = [range(0)] * len(names)
    for index in range(first, last + 1):
        start_column = measure_pieces(pieces)
        is_current = index == current_index
        pieces.append(
            (names[index], "bold $background on $warning" if is_current else "$foreground on $foreground 10%")
        )
        spans[index] = range(start_column, measure_pieces(pieces))
        pieces.append((" ", ""))
    pieces.append(("›" if last < len(names) - 1 else "", MUTED))
    return pieces, spans


def _fit_tabs(widths: Sequence[int], current_index: int, room: int) -> tuple[int, int]:
    """Return the first and last tab that fit `room` cells, tab `current_index` among them."""
    first = last = current_index
    used_width = widths[current_index]
    while True:
        has_grown = False
        if last + 1 < len(widths) and used_width + widths[last + 1] + 1 <= room:
            last, used_width, has_grown = last + 1, used_width + widths[last + 1] + 1, True
        if first > 0 and used_width + widths[first - 1] + 1 <= room:
            first, used_width, has_grown = first - 1, used_width + widths[first - 1] + 1, True
        if not has_grown:
            return first, last


def render_body(question: Question, draft: AnswerDraft, title: str, width: int) -> list[QuestionRow]:
    """Return the text of the question, then its options."""
    lines = [QuestionRow([(fit_line(title, max(width, 8)), MUTED)])] if title else []
    lines += [QuestionRow(row.pieces) for row in wrap_text(expose_text(shorten_lines(question.text)), width, "bold")]
    for index, option in enumerate(question.options):
        is_marked = index == draft.marked
        tick = ("☑ " if option.id in draft.ticked else "☐ ") if question.allow_multiple else ""
        is_answered = draft.answer is not None and option.id in draft.answer.options and not tick
        style = "bold $accent" if is_marked else ""
        first: list[Piece] = [("❯ " if is_marked else "  ", "bold $accent"), (f"{index + 1} {tick}", style)]
        pieces: list[Piece] = [("★ ", "$success")] if option.recommended else []
        pieces += [(expose_line(option.label), style)]
        pieces += [("  recommended", "$success")] if option.recommended else []
        pieces += [("  ✓", "$success")] if is_answered else []
        rest: list[Piece] = [(" " * measure_pieces(first), "")]
        lines += [QuestionRow(row.pieces, index) for row in wrap_pieces(pieces, width, first=first, rest=rest)]
    if question.allow_multiple:
        lines.append(QuestionRow([("    ⏎ answer with the marked options", MUTED)], TAKE_TICKED))
    return lines


def render_hints(parts: Sequence[tuple[str, str]], width: int) -> list[Piece]:
    """Return keys with labels, as many as fit, in order of importance."""
    pieces: list[Piece] = []
    for key, words in parts:
        dot, label = " · " if pieces else "", f" {words}" if words else ""
        hint_pieces: list[Piece] = [(dot, MUTED), (key, "bold $accent"), (label, MUTED)]
        if measure_pieces([*pieces, *hint_pieces]) > width:
            break
        pieces += hint_pieces
    return pieces


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
