"""The base of what comes up over the main screen and gives one answer."""

from __future__ import annotations

from typing import TypeVar

from textual.screen import ModalScreen

T = TypeVar("T")


class Dialog(ModalScreen[T]):
    """A modal screen that closes itself with an answer."""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-roomy")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-low"), (24, "-tall")]  # noqa: RUF012

    def on_mount(self) -> None:
        """Where the program ends meanwhile, Textual mounts a dialog without what is in its box."""
        if any(box.children for box in self.children):
            self.opened()

    def opened(self) -> None:
        """What is to be done once all of its widgets are there."""

    def give(self, answer: T) -> None:
        """Close with `answer`. Not awaited: a screen can't wait for its own end."""
        _ = self.dismiss(answer)
