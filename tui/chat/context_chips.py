"""The row of chips above the prompt: everything that is sent with its text, removable one by one.

It is always one line: chips that do not fit are counted at its end and scroll into view with the cursor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from core.protocol.queries import ContextItem, ContextProblem
from tui.keymap import get_bindings
from tui.text import fit_line

LABEL_LENGTHS: Final = (44, 32, 24, 20)  # maximum characters of a chip, if that lets all chips be visible
CROWDED_LENGTH: Final = 24  # otherwise
MIN_REASON: Final = 16  # columns without which a reason is not worth showing
_CLOSE: Final = " ✕"
_GAP: Final = " "


@dataclass(frozen=True, slots=True)
class _Chip:
    key: str
    label: str
    reason: str
    is_problem: bool = False

    def format(self, length: int) -> str:
        """Return the chip with a label of at most so many characters."""
        return f" {'? ' if self.is_problem else ''}{fit_label(self.label, length)}{_CLOSE} "


def fit_label(label: str, length: int) -> str:
    """Return a label for a chip; of one that is too long, its beginning and its end."""
    text = fit_line(label, 400)
    half = (length - 1) // 2
    return text if len(text) <= length else f"{text[:half]}…{text[-half:]}"


def _explain(problem: ContextProblem) -> str:
    """Return the problem of a mention and its remedy; the chip itself names the mention."""
    return f"{problem.message.removeprefix(f'{problem.key}: ')} {problem.hint}".strip()


class ContextChips(Widget, can_focus=True):
    """The row of chips, hidden without any. It gets the focus only by a key or a click."""

    BINDINGS = get_bindings("chips")

    @dataclass
    class Removed(Message):
        """The user removed the chip `key`."""

        key: str

    class Left(Message):
        """The user returned to the prompt; `text` is the letter that was typed for it."""

        def __init__(self, text: str = "") -> None:
            super().__init__()
            self.text = text

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.display = False
        self._chips: list[_Chip] = []
        self._cursor = 0
        self._first = 0  # the first chip in view
        self._length = LABEL_LENGTHS[0]
        self._places: list[tuple[int, int, int]] = []  # of the chips in view: begin, end, index

    def show(self, items: Sequence[ContextItem], problems: Sequence[ContextProblem]) -> None:
        """Show these chips; the same ones again draw nothing."""
        chips = [_Chip(problem.key, problem.key, _explain(problem), is_problem=True) for problem in problems]
        chips += [_Chip(context_item.key, context_item.label, context_item.reason) for context_item in items]
        if chips == self._chips:
            return
        self._chips = chips
        self._cursor = min(self._cursor, max(len(chips) - 1, 0))
        self._first = min(self._first, self._cursor)
        if bool(chips) != self.display:
            self.display = bool(chips)
        if self.has_focus and not chips:
            self.post_message(self.Left())
        self.refresh()

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of all chips, including those that are only counted."""
        return tuple(chip.key for chip in self._chips)

    def render(self) -> Content:
        width = self.content_size.width
        if not self._chips or width <= 0:
            return Content("")
        self._arrange(width)
        parts: list[Content | str | tuple[str, str]] = []
        for _, _, index in self._places:
            chip = self._chips[index]
            style = "$background on $primary" if self._is_at(index) else "$foreground on $surface"
            if chip.is_problem and not self._is_at(index):
                style = "$text-warning on $surface"
            parts += [(chip.format(self._length), style), _GAP]
        end = self._places[-1][1] + len(_GAP)
        hidden_count = len(self._chips) - len(self._places)
        if hidden_count:
            counter = f"+{hidden_count}"
            parts.append((counter, "$foreground 60%"))
            end += len(counter) + 1
        if self.has_focus and end + MIN_REASON < width:
            parts.append((f" {fit_line(self._chips[self._cursor].reason, width)}", "$foreground 60%"))
        return Content.assemble(*parts).truncate(width, ellipsis=True)

    def _is_at(self, index: int) -> bool:
        return self.has_focus and index == self._cursor

    def _arrange(self, width: int) -> None:
        """Place the chips from the first visible one on; the chip at the cursor is always among them."""
        self._length = next((length for length in LABEL_LENGTHS if self._measure(length) <= width), CROWDED_LENGTH)
        self._first = min(self._first, self._cursor)
        self._places = self._place(width)
        while self._places[-1][2] < self._cursor:
            self._first += 1
            self._places = self._place(width)
        while self._first and self._places[-1][2] == len(self._chips) - 1:
            self._first -= 1
            if (wider := self._place(width))[-1][2] < len(self._chips) - 1:
                self._first += 1
                break
            self._places = wider

    def _measure(self, length: int) -> int:
        """Return the columns of all chips with labels of at most `length` characters."""
        return sum(len(chip.format(length)) + len(_GAP) for chip in self._chips) - len(_GAP)

    def _place(self, width: int) -> list[tuple[int, int, int]]:
        places: list[tuple[int, int, int]] = []
        column, count = 0, len(self._chips)
        for index in range(self._first, count):
            end = column + len(self._chips[index].format(self._length))
            room = width - (0 if index == count - 1 and not self._first else len(f"+{count}") + len(_GAP))
            if places and end > room:
                break
            places.append((column, end, index))
            column = end + len(_GAP)
        return places

    def action_move(self, step: int) -> None:
        if self._chips:
            self._cursor = max(0, min(self._cursor + step, len(self._chips) - 1))
            self._show_reason()

    def _show_reason(self) -> None:
        self.tooltip = self._chips[self._cursor].reason if self._chips else None
        self.refresh()

    def action_remove(self) -> None:
        if self._chips:
            self.post_message(self.Removed(self._chips[self._cursor].key))

    def action_leave(self) -> None:
        self.post_message(self.Left())

    def on_key(self, event: events.Key) -> None:
        if event.is_printable and event.character:
            event.stop()
            self.post_message(self.Left(event.character))

    def on_focus(self) -> None:
        self._show_reason()

    def on_blur(self) -> None:
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        content_offset = event.get_content_offset(self)
        for begin, end, index in self._places:
            if content_offset is not None and begin <= content_offset.x < end:
                self._cursor = index
                if content_offset.x >= end - len(_CLOSE) - 1:
                    self.action_remove()
                else:
                    self._show_reason()
                return
