"""The base of what comes up over the main screen and gives one answer."""

from __future__ import annotations

from typing import Final, TypeVar

from textual.screen import ModalScreen

from tui.sight import Guard, Guarded

T = TypeVar("T")
GRACE: Final = 0.4  # seconds


class Dialog(Guarded, ModalScreen[T]):
    """A modal screen that closes itself with an answer.

    One that `consents` to something takes no yes for a moment after it came up: a key that was meant for what was there
    before is no consent. None and False only ever leave things as they are.
    """

    consents: bool = False

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-roomy")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-low"), (24, "-tall")]  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.guard = Guard(GRACE)

    def on_mount(self) -> None:
        """Where the program ends meanwhile, Textual mounts a dialog without what is in its box."""
        if any(box.children for box in self.children):
            self.opened()

    def opened(self) -> None:
        """What is to be done once all of its widgets are there."""

    def give(self, answer: T) -> None:
        """Close with `answer`. Not awaited: a screen can't wait for its own end."""
        if not self.consents or answer is None or answer is False or self.is_read():
            _ = self.dismiss(answer)
