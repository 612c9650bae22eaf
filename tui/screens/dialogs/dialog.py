"""The base of the dialogs, which are shown over the main screen and give one answer."""

from __future__ import annotations

from typing import Final, TypeVar

from textual.screen import ModalScreen

from tui.input.visibility import GracePeriod, GuardedWidget

T = TypeVar("T")
GRACE_SECONDS: Final = 0.4  # seconds


class Dialog(GuardedWidget, ModalScreen[T]):
    """A modal screen that closes itself with an answer.

    One that `asks_consent` takes no yes for a moment after it was shown: a key that was meant for what was there
    before is no consent. None and False only ever leave things as they are.
    """

    asks_consent: bool = False

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-roomy")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-low"), (24, "-tall")]  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.grace_period = GracePeriod(GRACE_SECONDS)

    def on_mount(self) -> None:
        """Set it up, unless the program ends meanwhile: then Textual mounts a dialog without the widgets in its
        box."""
        if any(box.children for box in self.children):
            self.set_up()

    def set_up(self) -> None:
        """Prepare the widgets, once all of them are mounted."""

    def answer(self, result: T) -> None:
        """Close with an answer. Not awaited: a screen can't wait for its own end."""
        if not self.asks_consent or result is None or result is False or self.can_take_answer():
            _ = self.dismiss(result)
