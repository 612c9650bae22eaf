"""The one line at the foot of the review: why a hunk is rejected, what is said about it, which files are looked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from textual.binding import BindingType
from textual.message import Message
from textual.widgets import Input

from tui.keymap import bindings

Purpose = Literal["reason", "comment", "filter"]
PLACEHOLDERS: Final = {
    "reason": "Why? Enter rejects and tells the model, Escape goes back",
    "comment": "Your comment. Enter keeps it until you send all of them, empty removes it",
    "filter": "Words of a path, or of a command. Enter stays with what was found, Escape shows all",
}


class ReviewInput(Input):
    """Asks for one line; what it is for is its `purpose`."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("reason")

    @dataclass
    class Cancelled(Message):
        """The user changed their mind."""

    purpose: Purpose = "reason"

    @property
    def keys_of(self) -> Purpose:
        """Which keys the footer names."""
        return self.purpose

    def ask(self, purpose: Purpose, value: str = "") -> None:
        """Come up for a purpose, with the focus."""
        self.purpose = purpose
        self.value, self.placeholder = value, PLACEHOLDERS[purpose]
        self.display = True
        self.set_class(purpose == "reason", "-reason")
        self.focus()

    def action_cancel(self) -> None:
        """Back without an answer."""
        self.post_message(self.Cancelled())
