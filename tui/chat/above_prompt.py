"""The lists above the prompt: completion candidates, and messages that were not sent to a model yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from textual.content import Content
from textual.widget import Widget
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from tui.files.matches import format_whole_path, mark_letters, mark_words
from tui.keymap import format_first_key, get_keymap
from tui.text import fit_line
from tui.widgets.text_rows import measure_text

LEAST_ROWS: Final = 3  # of candidates, however full the column is
LONGEST_WORD: Final = 44  # columns that words are aligned in; a longer one pushes its note


class CompletionList(OptionList, can_focus=False):
    """Shows candidates; the prompt has the focus and passes keys to this list. It takes its room from the
    conversation, never from the line that is being typed."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, compact=True)
        self.kind = self.pattern = ""
        self.display = False
        self._words: tuple[str, ...] = ()

    def show(self, kind: str, pattern: str, candidates: Sequence[tuple[str, str]]) -> None:
        """Show (word, explanation) candidates; an empty list hides the widget."""
        self.kind, self.pattern = kind, pattern
        self._words = tuple(word for word, _ in candidates)
        rows = [(self._format_word(word, note), fit_line(note)) for word, note in candidates]
        column = max((min(word.cell_length, LONGEST_WORD) for word, note in rows if note), default=0)
        self.set_options(
            Option(Content.assemble(word, " " * (column - word.cell_length), "  ", (note, "$foreground 60%")))
            for word, note in rows
        )
        self.display = bool(candidates)
        if candidates:
            self.highlighted = 0

    def _format_word(self, word: str, note: str) -> Content:
        """Format a candidate; the typed letters are highlighted so that rows are easy to distinguish."""
        if self.kind == "history":
            return mark_words(fit_line(word), self.pattern)
        if self.kind != "@":
            return mark_letters(f"{self.kind}{fit_line(word)}", self.pattern, start=len(self.kind))
        parent = self.parent
        room = (parent.size.width if isinstance(parent, Widget) else 0) - 4 - 2 * self.scrollbar_size_vertical
        note_width = min(measure_text(note), room // 2) + 2 if note else 0
        return format_whole_path(word, self._words, self.pattern, max(room - note_width, 20))

    def on_mount(self) -> None:
        self.screen.screen_layout_refresh_signal.subscribe(self, self._fit, immediate=True)

    def _fit(self, _: object) -> None:
        """Take rows from the conversation only, at least one of which stays visible."""
        column = self.parent
        if not self.display or not isinstance(column, Widget):
            return
        siblings = [sibling for sibling in column.displayed_children if sibling is not self]
        used_rows = sum(
            sibling.gutter.height + 1 if _is_flexible(sibling) else sibling.outer_size.height for sibling in siblings
        )
        room = max(column.size.height - used_rows, LEAST_ROWS)
        limit = self.styles.max_height
        if limit is None or limit.value != room:
            self.styles.max_height = room

    @property
    def selected_word(self) -> str | None:
        """The highlighted word, None without one."""
        return self._words[self.highlighted] if self.highlighted is not None and self._words else None


def _is_flexible(widget: Widget) -> bool:
    height = widget.styles.height
    return height is not None and height.is_fraction


MAX_ROWS: Final = 3
MAX_LENGTH: Final = 200


class QueuedMessages(Widget):
    """One row per message, oldest first; hidden without any."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.display = False
        self._rows: list[tuple[str, str]] = []

    def show(self, returned_texts: Sequence[str], queued_texts: Sequence[str]) -> None:
        """Show these messages, and the key that takes them back."""
        self._rows = [("not sent", text) for text in returned_texts]
        self._rows += [("queued", text) for text in queued_texts]
        self.display = bool(self._rows)
        self.refresh(layout=True)

    def render(self) -> Content:
        keymap = get_keymap(self.app)
        back = f"   {format_first_key('prompt.older', keymap)} to edit"
        visible_rows = self._rows[:MAX_ROWS]
        lines = [Content.assemble((f"{status} ", "bold"), fit_line(text, MAX_LENGTH)) for status, text in visible_rows]
        if len(self._rows) > MAX_ROWS:
            lines.append(Content(f"and {len(self._rows) - MAX_ROWS} more"))
        width = self.content_size.width or MAX_LENGTH
        rooms = [width] * (len(lines) - 1) + [max(width - len(back), 1)]
        cut = [line.truncate(room, ellipsis=True) for line, room in zip(lines, rooms, strict=False)]
        return Content("\n").join(cut) + Content(back) if cut else Content("")
