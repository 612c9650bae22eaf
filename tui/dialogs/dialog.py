"""The base of the dialogs over the main screen, which return one answer."""

from __future__ import annotations

from typing import Final, TypeVar

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.style import Style
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.renderables.background_screen import BackgroundScreen
from textual.screen import ModalScreen
from textual.widgets import Static

from tui.current_layout import CurrentLayoutScreen
from tui.input.visibility import GracePeriod, GuardedWidget
from tui.keymap import get_bindings
from tui.text import to_content
from tui.themes.appearance import find_backdrop

T = TypeVar("T")
GRACE_SECONDS: Final = 0.4


class PlainScreen(BackgroundScreen):
    """A screen behind a dialog, all of it in one style."""

    def __init__(self, behind: BackgroundScreen, style: Style) -> None:
        super().__init__(behind.screen, behind.color)
        self._style = style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for text, _, control in console.render(self.screen._compositor, options):
            yield Segment(text, None if control else self._style, control)


class Dialog(GuardedWidget, CurrentLayoutScreen[T | None], ModalScreen[T | None]):
    """A modal screen with a title that closes with an answer; None = no answer. `shape` is a CSS class of its box.

    With `asks_consent`, a yes is ignored for a moment after the dialog appeared: a key for the screen before is no
    consent. None and False must always be safe answers.

    The keys to leave and for help work in every dialog.
    """

    BINDINGS = get_bindings("app", names=("app.quit", "app.keys"))
    asks_consent = False
    shape = ""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-roomy")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-low"), (24, "-tall"), (36, "-high")]  # noqa: RUF012

    def __init__(self, title: str | Content = "") -> None:
        super().__init__()
        self._title = title if isinstance(title, Content) else to_content(title)
        self.grace_period = GracePeriod(GRACE_SECONDS)

    def render(self) -> RenderableType:
        """Render the screen behind the dialog."""
        behind, style = super().render(), find_backdrop(self.app, self.styles.background)
        return PlainScreen(behind, style) if style is not None and isinstance(behind, BackgroundScreen) else behind

    def compose(self) -> ComposeResult:
        with Vertical(classes=f"dialog {self.shape}"):
            yield Static(self._title, classes="dialog-title")
            yield from self.compose_body()

    def compose_body(self) -> ComposeResult:
        """Yield the widgets below the title."""
        yield from ()

    def on_mount(self) -> None:
        # Where the program ends meanwhile, Textual mounts a dialog without the widgets in its box.
        if any(box.children for box in self.children) and all(row.children for row in self.query(Horizontal)):
            self.set_up()

    def set_up(self) -> None:
        """Prepare the widgets, once all of them are mounted."""

    def answer(self, result: T | None) -> None:
        """Close with an answer. Not awaited: a screen can't wait for its own end."""
        if not self.asks_consent or result is None or result is False or self.can_take_answer():
            _ = self.dismiss(result)

    def action_leave(self) -> None:
        self.answer(None)
