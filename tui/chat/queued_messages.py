"""Messages that no model was sent yet: shown above the prompt until they are sent or taken back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from textual.content import Content
from textual.widget import Widget

from tui.keymap import format_first_key, get_keymap
from tui.text import fit_line

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
