"""The input at the foot of the review: a reason, a comment, or a filter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tui.widgets.input_line import InputLine, InputPurpose


class ReviewInput(InputLine):
    """Asks for the reason of a rejection, for a comment, or for words to filter by."""

    purposes: ClassVar[Mapping[str, InputPurpose]] = {
        "reason": InputPurpose("Why? Enter rejects and tells the model, Escape goes back", "reject"),
        "comment": InputPurpose("Your comment. Enter keeps it until you send all of them, empty removes it", "keep"),
        "filter": InputPurpose(
            "Words of a path, or of a command. Enter stays with what was found, Escape shows all",
            "go there",
            "show all",
        ),
    }

    def ask(self, purpose: str, value: str = "") -> None:
        super().ask(purpose, value)
        self.set_class(purpose == "reason", "-reason")
