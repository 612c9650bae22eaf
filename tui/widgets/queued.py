"""What was said and no model was sent: seen above the prompt until it is sent or taken back."""

from __future__ import annotations

from typing import Final

from textual.content import Content
from textual.widgets import Static

from tui.steering_fold import Said
from tui.text import one_line

SHOWN: Final = 3
LONGEST: Final = 200


class Queued(Static):
    """One line for each message, the oldest first; hidden while there is none."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.display = False

    def show(self, said: Said) -> None:
        """Show these, and the way back."""
        rows = [("not sent", text) for text, _ in said.returned] + [
            ("queued", text) for text, _ in said.queued.values()
        ]
        lines = [Content.assemble((f"{how} ", "bold"), one_line(text, LONGEST)) for how, text in rows[:SHOWN]]
        if len(rows) > SHOWN:
            lines.append(Content(f"and {len(rows) - SHOWN} more"))
        if rows:
            lines[-1] += Content("   up takes it back" if len(rows) == 1 else "   up takes them back")
        self.update(Content("\n").join(lines))
        self.display = bool(rows)
