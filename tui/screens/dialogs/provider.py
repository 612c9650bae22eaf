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

FIELDS: Final = {
    "url": "its address, such as localhost:8080 or https://host.example/v1",
    "name": "a name for it; else it is called after its address",
    "key": "its key, if it wants one",
}
ABOUT: Final = (
    "It speaks chat completions, as most servers do. The address is enough: Enter looks for its models, ↓ goes on."
)
BAD_NAME: Final = "A name is one word of small letters, digits, - and _, and begins with a letter."
BAD_ADDRESS: Final = "An address is host:port, or begins with http:// or https:// and mostly ends in /v1."
_MAX_NAME: Final = 31
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,30}")
_ADDRESS: Final = re.compile(
    r"(?:(?P<scheme>https?)://)?(?P<host>\[[0-9a-f:]+\]|[a-z0-9_.-]+)(?::(?P<port>\d{1,5}))?(?P<path>/[^\s?#]*)?",
    re.IGNORECASE,
)
_OWN_HOST: Final = re.compile(r"localhost|127\.[\d.]+|\[::1\]|0\.0\.0\.0", re.IGNORECASE)
_USUAL_PATH: Final = "/v1"
RESERVED_NAMES: Final = frozenset({"scripted"})


def complete_address(text: str) -> str:
    """Return the URL that was meant: `host:port` is one, too, and without a path it is the usual one; "" = it is none.

    Without a scheme it is https for a name on the internet, http for what has a port, or is on a network of the user's.
    """
    match = _ADDRESS.fullmatch(text.strip())
    if match is None or int(match["port"] or 1) not in range(1, 1 << 16):
        return ""
    host, path = match["host"], (match["path"] or "").rstrip("/")
    if not match["scheme"] and not ("." in host or match["port"] or _OWN_HOST.fullmatch(host)):
        return ""  # one bare word is more likely a slip
    is_public = not match["port"] and not _OWN_HOST.fullmatch(host)
    scheme = (match["scheme"] or ("https" if is_public else "http")).lower()
    return f"{scheme}://{host}{':' if match['port'] else ''}{match['port'] or ''}{path or _USUAL_PATH}"


def name_server(url: str) -> str:
    """Return a name for the server at an address: `local-8080`, `host-example`."""
    match = _ADDRESS.fullmatch(url)
    if match is None:
        return ""
    host = "local" if _OWN_HOST.fullmatch(match["host"]) else match["host"].lower()
    words = re.findall(r"[a-z0-9]+", f"{host} {match['port'] or ''}")
    name = "-".join(words if words[0][0].isalpha() else ("at", *words))
    return name[:_MAX_NAME].rstrip("-")


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
        """Answer, unless something can't be right."""
        event.stop()
        url = complete_address(self._get_value("url"))
        name = self._get_value("name") or name_server(url)
        is_name = name not in RESERVED_NAMES and _NAME.fullmatch(name)
        problems = {"url": "" if url else BAD_ADDRESS, "name": "" if is_name else BAD_NAME}
        for field, problem in problems.items():
            if problem:
                self._show_problem(problem)
                self._get_field(field).focus()
                return
        self.answer(ProviderConfigure(provider=name, base_url=url, key=self._get_value("key")))

    def _show_problem(self, problem: str) -> None:
        style = "$error" if problem else "$foreground 60%"
        self.query_one("#address-about", Static).update(Content.styled(problem or ABOUT, style))

    def action_move(self, step: int) -> None:
        names = list(FIELDS)
        position = next((index for index, name in enumerate(names) if self._get_field(name).has_focus), 0)
        self._get_field(names[(position + step) % len(names)]).focus()


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
