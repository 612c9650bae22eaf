"""The input at the foot of the review: a reason, a comment, or a filter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from textual.binding import BindingType
from textual.message import Message
from textual.widgets import Input

from tui.keymap import get_bindings

ReviewInputPurpose = Literal["reason", "comment", "filter"]
PLACEHOLDERS: Final = {
    "reason": "Why? Enter rejects and tells the model, Escape goes back",
    "comment": "Your comment. Enter keeps it until you send all of them, empty removes it",
    "filter": "Words of a path, or of a command. Enter stays with what was found, Escape shows all",
}


class ReviewInput(Input):
    """Asks for one line of text for a `purpose`."""

    BINDINGS: ClassVar[list[BindingType]] = get_bindings("reason")

    @dataclass
    class Cancelled(Message):
        """The input was cancelled."""

    purpose: ReviewInputPurpose = "reason"

    @property
    def hint_scope(self) -> ReviewInputPurpose:
        """Key of the footer hints."""
        return self.purpose

    def ask(self, purpose: ReviewInputPurpose, value: str = "") -> None:
        """Open for a purpose, with the focus."""
        self.purpose = purpose
        self.value, self.placeholder = value, PLACEHOLDERS[purpose]
        self.display = True
        self.set_class(purpose == "reason", "-reason")
        self.focus()

    def action_cancel(self) -> None:
        """Close without an answer."""
        self.post_message(self.Cancelled())
