"""What was said and no model was sent: seen above the prompt until it is sent or taken back."""

from __future__ import annotations

from typing import Final

from textual.content import Content
from textual.widget import Widget

from tui.keymap import key_of
from tui.steering_fold import Said
from tui.text import one_line

SHOWN: Final = 3
LONGEST: Final = 200


class Queued(Widget):
    """One row for each message, the oldest first; hidden while there is none."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.display = False
        self._rows: list[tuple[str, str]] = []

    def show(self, said: Said) -> None:
        """Show these, and the way back."""
        self._rows = [("not sent", text) for text, _ in said.returned]
        self._rows += [("queued", text) for text, _ in said.queued.values()]
        self.display = bool(self._rows)
        self.refresh(layout=True)

    def render(self) -> Content:
        keymap = getattr(self.app, "keymap", {})
        back = f"   {key_of('prompt.older', keymap)} takes {'it' if len(self._rows) == 1 else 'them'} back"
        shown = self._rows[:SHOWN]
        lines = [Content.assemble((f"{how} ", "bold"), one_line(text, LONGEST)) for how, text in shown]
        if len(self._rows) > SHOWN:
            lines.append(Content(f"and {len(self._rows) - SHOWN} more"))
        width = self.content_size.width or LONGEST
        rooms = [width] * (len(lines) - 1) + [max(width - len(back), 1)]
        cut = [line.truncate(room, ellipsis=True) for line, room in zip(lines, rooms, strict=False)]
        return Content("\n").join(cut) + Content(back) if cut else Content("")
