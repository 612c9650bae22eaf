"""A model server at an address of the user's own: its name, where it is, and its key if it wants one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static

from core.protocol.commands import ProviderConfigure
from tui.keymap import bindings
from tui.screens.dialog import Dialog

if TYPE_CHECKING:
    from tui.screens.actions import ActingScreen

TITLE: Final = "A model server of your own"
USUAL_NAME: Final = "work"
FIELDS: Final = {
    "url": "its address, such as https://host.example/v1",
    "name": f"a name for it; else it is called {USUAL_NAME}",
    "key": "its key, if it wants one",
}
ABOUT: Final = "It speaks chat completions, as most servers do. Enter goes on, Escape back."
NO_NAME: Final = "A name is one word of small letters, digits, - and _, and begins with a letter."
NO_ADDRESS: Final = "An address begins with http:// or https://, and mostly ends in /v1."
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,30}")
_ADDRESS: Final = re.compile(r"https?://[^\s/?#@]+", re.IGNORECASE)
TAKEN: Final = frozenset({"scripted"})


class AddressEntry(Dialog[ProviderConfigure | None]):
    """Answers where a server is, or None. What can't be right is told where it was typed."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("address")

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content(TITLE), classes="dialog-title")
            for name, placeholder in FIELDS.items():
                field = Input(placeholder=placeholder, password=name == "key", compact=True, id=f"address-{name}")
                field.cursor_blink = False
                yield field
            yield Static(Content.styled(ABOUT, "$foreground 60%"), id="address-about")

    def opened(self) -> None:
        self._field("url").focus()

    def _field(self, name: str) -> Input:
        return self.query_one(f"#address-{name}", Input)

    def _said(self, name: str) -> str:
        return self._field(name).value.strip()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """The next field; behind the last one the whole is taken, unless something in it can't be right."""
        for name, problem in (("url", self._url_problem()), ("name", self._name_problem())):
            if problem and (event.input.id in {f"address-{name}", "address-key"}):
                self._tell(problem)
                self._field(name).focus()
                return
        self._tell("")
        if event.input.id != "address-key":
            self.action_move(1)
            return
        self.give(ProviderConfigure(provider=self._chosen_name(), base_url=self._said("url"), key=self._said("key")))

    def _chosen_name(self) -> str:
        return self._said("name") or USUAL_NAME

    def _name_problem(self) -> str:
        name = self._chosen_name()
        return NO_NAME if name in TAKEN or _NAME.fullmatch(name) is None else ""

    def _url_problem(self) -> str:
        return NO_ADDRESS if _ADDRESS.match(self._said("url")) is None else ""

    def _tell(self, problem: str) -> None:
        style = "$error" if problem else "$foreground 60%"
        self.query_one("#address-about", Static).update(Content.styled(problem or ABOUT, style))

    def action_move(self, step: int) -> None:
        """The field below or above."""
        names = list(FIELDS)
        at = next((place for place, name in enumerate(names) if self._field(name).has_focus), 0)
        self._field(names[(at + step) % len(names)]).focus()

    def action_leave(self) -> None:
        """No address."""
        self.give(None)


async def ask_address(screen: ActingScreen) -> ProviderConfigure | None:
    """Where a server of the user's own is; None: they went back."""
    return await screen.app.push_screen_wait(AddressEntry())
