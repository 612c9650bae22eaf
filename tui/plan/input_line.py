"""The input at the foot of the plan panel: todos, dependencies, proofs, filters and comments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, Literal

from textual.binding import BindingType
from textual.message import Message
from textual.widgets import Input

from tui.keymap import get_bindings

PlanInputPurpose = Literal["add", "edit", "needs", "verify", "filter", "comment"]
PLACEHOLDERS: Final[Mapping[PlanInputPurpose, str]] = {
    "add": "What is to be done. Enter adds it below the marked todo",
    "edit": "What is to be done. Enter changes it",
    "needs": "Ids that it waits for, with commas between them; empty: it waits for nothing",
    "verify": "A command that has to pass before it is completed; empty: none",
    "filter": "Words, or ready, doing, blocked, done; esc: all",
    "comment": "Your comment. Enter keeps it for S, empty removes it",
}


class PlanInput(Input):
    """Asks for one line of text for a `purpose`."""

    BINDINGS: ClassVar[list[BindingType]] = get_bindings("reason")
    purpose: PlanInputPurpose = "add"

    @property
    def hint_scope(self) -> str:
        """Key of the footer hints."""
        return {"comment": "comment", "filter": "sifting"}.get(self.purpose, "planline")

    class Cancelled(Message):
        """The input was cancelled."""

    def ask(self, purpose: PlanInputPurpose, value: str = "") -> None:
        """Open for a purpose, with the focus."""
        self.purpose = purpose
        self.value, self.placeholder = value, PLACEHOLDERS[purpose]
        self.cursor_position = len(value)
        self.display = True
        self.focus()

    def action_cancel(self) -> None:
        """Close without an answer."""
        self.post_message(self.Cancelled())
