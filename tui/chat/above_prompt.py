"""The lists above the prompt: candidates that complete a word, and messages that no model was sent yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from textual.content import Content
from textual.widget import Widget
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from tui.keymap import format_first_key, get_keymap
from tui.text import fit_line


class CompletionList(OptionList, can_focus=False):
    """Shows candidates; the prompt keeps the focus and passes the keys on."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, compact=True)
        self.kind = self.pattern = ""
        self.display = False
        self._words: tuple[str, ...] = ()

    def show(self, kind: str, pattern: str, candidates: Sequence[tuple[str, str]]) -> None:
        """Show (word, explanation) candidates for what was typed; none hides the list."""
        self.kind, self.pattern = kind, pattern
        self._words = tuple(word for word, _ in candidates)
        self.set_options(
            Option(Content.assemble(fit_line(word), "  ", (fit_line(note), "$foreground 60%")))
            for word, note in candidates
        )
        self.display = bool(candidates)
        if candidates:
            self.highlighted = 0

    @property
    def selected_word(self) -> str | None:
        """The highlighted word, None without one."""
        return self._words[self.highlighted] if self.highlighted is not None and self._words else None


MAX_ROWS: Final = 3
MAX_LENGTH: Final = 200


class QueuedMessages(Widget):
    """One row per message, oldest first; hidden without any."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.display = False
        self._rows: list[tuple[str, str]] = []

    def show(self, returned: Sequence[str], queued: Sequence[str]) -> None:
        """Show these messages, and the key that takes them back."""
        self._rows = [("not sent", text) for text in returned]
        self._rows += [("queued", text) for text in queued]
        self.display = bool(self._rows)
        self.refresh(layout=True)

    def render(self) -> Content:
        keymap = get_keymap(self.app)
        back = f"   {format_first_key('prompt.older', keymap)} takes {'it' if len(self._rows) == 1 else 'them'} back"
        shown = self._rows[:MAX_ROWS]
        lines = [Content.assemble((f"{how} ", "bold"), fit_line(text, MAX_LENGTH)) for how, text in shown]
        if len(self._rows) > MAX_ROWS:
            lines.append(Content(f"and {len(self._rows) - MAX_ROWS} more"))
        width = self.content_size.width or MAX_LENGTH
        rooms = [width] * (len(lines) - 1) + [max(width - len(back), 1)]
        cut = [line.truncate(room, ellipsis=True) for line, room in zip(lines, rooms, strict=False)]
        return Content("\n").join(cut) + Content(back) if cut else Content("")
