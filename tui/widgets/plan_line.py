"""The one line at the foot of the plan: what a new todo says, what one waits for, what is said about its text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, Literal

from textual.binding import BindingType
from textual.message import Message
from textual.widgets import Input

from tui.keymap import bindings

Purpose = Literal["add", "edit", "needs", "verify", "filter", "comment"]
PLACEHOLDERS: Final[Mapping[Purpose, str]] = {
    "add": "What is to be done. Enter adds it below the marked todo",
    "edit": "What is to be done. Enter changes it",
    "needs": "Ids that it waits for, with commas between them; empty: it waits for nothing",
    "verify": "A command that has to pass before it is completed; empty: none",
    "filter": "Words, or ready, doing, blocked, done; esc: all",
    "comment": "Your comment. Enter keeps it for S, empty removes it",
}


class PlanLine(Input):
    """Asks for one line; what it is for is its `purpose`."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("reason")
    purpose: Purpose = "add"

    @property
    def keys_of(self) -> str:
        """Which keys the footer names."""
        return {"comment": "comment", "filter": "sifting"}.get(self.purpose, "planline")

    class Cancelled(Message):
        """The user changed their mind."""

    def ask(self, purpose: Purpose, value: str = "") -> None:
        """Come up for a purpose, with the focus."""
        self.purpose = purpose
        self.value, self.placeholder = value, PLACEHOLDERS[purpose]
        self.cursor_position = len(value)
        self.display = True
        self.focus()

    def action_cancel(self) -> None:
        """Back without an answer."""
        self.post_message(self.Cancelled())
