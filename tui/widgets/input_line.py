"""An input of one line at the foot of a pane: closed until it is asked for, for one of the pane's purposes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

from textual import events
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import Input

from tui.input.keystrokes import OrderedBindings
from tui.keymap import get_bindings
from tui.widgets.key_hints import Hint


class InputPurpose(NamedTuple):
    """The placeholder of the input, and the footer's labels of its two keys."""

    placeholder: str
    submit: str
    cancel: str = "back"


class SteadyInput(Input, OrderedBindings):
    """An input that takes keys in their order, and whose cursor does not blink, since that would write to the terminal
    while nothing happens."""

    cursor_blink = reactive(False, init=False)

    async def _on_key(self, event: events.Key) -> None:
        if not event.is_printable and await self._run_binding(event.key):
            event.stop()
            event.prevent_default()


class InputLine(SteadyInput):
    """Asks for one line of text. A subclass names its `purposes`; the first one is the default."""

    DEFAULT_CSS = """
    InputLine { display: none; height: 1; border: none; padding: 0 1; background: $surface; }
    InputLine:focus { border: none; }
    """

    BINDINGS = get_bindings("reason")
    purposes: ClassVar[Mapping[str, InputPurpose]] = {}

    class Cancelled(Message):
        """The input was cancelled."""

    def __init__(self, *, select_on_focus: bool = True) -> None:
        super().__init__(compact=True, select_on_focus=select_on_focus)
        self.purpose = next(iter(self.purposes))

    @property
    def hints(self) -> tuple[Hint, ...]:
        purpose = self.purposes[self.purpose]
        return ("reason.submit", purpose.submit), ("reason.cancel", purpose.cancel)

    def ask(self, purpose: str, value: str = "") -> None:
        self.purpose = purpose
        self.value, self.placeholder = value, self.purposes[purpose].placeholder
        self.cursor_position = len(value)
        self.display = True
        self.focus()

    def close(self) -> str:
        self.display = False
        return self.purpose

    def action_cancel(self) -> None:
        self.post_message(self.Cancelled())
