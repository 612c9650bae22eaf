"""The dialogs for a key of a model API, and for a model server at an address of the user's own."""

from __future__ import annotations

import re
from typing import Final

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Input, Static

from core.protocol.commands import ProviderConfigure
from tui.keymap import get_bindings
from tui.screens.dialogs.dialog import Dialog
from tui.screens.dialogs.welcome import KEY_STORAGE_HINT
from tui.text import fit_line
from tui.widgets.input_line import SteadyInput

DEFAULT_NAME: Final = "work"
FIELDS: Final = {
    "url": "its address, such as https://host.example/v1",
    "name": f"a name for it; else it is called {DEFAULT_NAME}",
    "key": "its key, if it wants one",
}
ABOUT: Final = "It speaks chat completions, as most servers do. Enter goes on, Escape back."
BAD_NAME: Final = "A name is one word of small letters, digits, - and _, and begins with a letter."
BAD_ADDRESS: Final = "An address begins with http:// or https://, and mostly ends in /v1."
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,30}")
_ADDRESS: Final = re.compile(r"https?://[^\s/?#@]+", re.IGNORECASE)
RESERVED_NAMES: Final = frozenset({"scripted"})


class AddressDialog(Dialog[ProviderConfigure]):
    """Asks for a server's address; None = the user went back. A mistake is reported where it was typed."""

    BINDINGS = get_bindings("address")

    def __init__(self) -> None:
        super().__init__("A model server of your own")

    def compose_body(self) -> ComposeResult:
        for name, placeholder in FIELDS.items():
            yield SteadyInput(placeholder=placeholder, password=name == "key", compact=True, id=f"address-{name}")
        yield Static(Content.styled(ABOUT, "$foreground 60%"), id="address-about")

    def set_up(self) -> None:
        self._get_field("url").focus()

    def _get_field(self, name: str) -> Input:
        return self.query_one(f"#address-{name}", Input)

    def _get_value(self, name: str) -> str:
        return self._get_field(name).value.strip()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Go to the next field; behind the last one answer, unless something can't be right."""
        url, name = self._get_value("url"), self._get_value("name") or DEFAULT_NAME
        is_name = name not in RESERVED_NAMES and _NAME.fullmatch(name)
        problems = {"url": "" if _ADDRESS.match(url) else BAD_ADDRESS, "name": "" if is_name else BAD_NAME}
        for field, problem in problems.items():
            if problem and event.input.id in {f"address-{field}", "address-key"}:
                self._show_problem(problem)
                self._get_field(field).focus()
                return
        self._show_problem("")
        if event.input.id == "address-key":
            self.answer(ProviderConfigure(provider=name, base_url=url, key=self._get_value("key")))
        else:
            self.action_move(1)

    def _show_problem(self, problem: str) -> None:
        style = "$error" if problem else "$foreground 60%"
        self.query_one("#address-about", Static).update(Content.styled(problem or ABOUT, style))

    def action_move(self, step: int) -> None:
        names = list(FIELDS)
        at = next((place for place, name in enumerate(names) if self._get_field(name).has_focus), 0)
        self._get_field(names[(at + step) % len(names)]).focus()


class KeyDialog(Dialog[str]):
    """Asks for a key; None = none was pasted."""

    BINDINGS = get_bindings("key")

    def __init__(self, label: str) -> None:
        super().__init__(f"Paste a key for {fit_line(label, 40)}")

    def compose_body(self) -> ComposeResult:
        yield SteadyInput(password=True, compact=True, placeholder="paste the key, then enter")
        yield Static(Content.styled(KEY_STORAGE_HINT, "$foreground 60%"))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if key := event.value.strip():
            self.answer(key)
