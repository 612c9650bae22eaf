"""What stands where a conversation will be: what can be done here, in a few calm lines, with the keys in force."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from textual.content import Content
from textual.widgets import Static

from tui.keymap import key_of

_MUTED: Final = "$foreground 60%"
_LAW: Final = "The agent works in a shadow of this project: nothing reaches your files until you accept it."
_WAYS: Final = (
    ("@", "name a file"),
    ("/", "commands"),
    ("app.mode_next", "mode: Agent, Plan, Ask, Debug"),
    ("app.review", "review what it changed"),
    ("app.files", "files of the project"),
    ("app.palette", "search every command"),
    ("app.keys", "all keys"),
)


class Greeting(Static):
    """Has no state: it is shown as long as nothing was said."""

    def greet(self, keymap: Mapping[str, str], note: str = "") -> None:
        """Draw it with the user's keys, and what else is to be known at the start."""
        parts = [("Say what you want done and press Enter.\n", "bold"), (f"{_LAW}\n", _MUTED)]
        parts.append((f"{note}\n\n" if note else "\n", "$text-warning"))
        for way, what in _WAYS:
            how = key_of(way, keymap) if "." in way else way
            parts += [(f"{how:<11}", "$accent"), (f"{what}\n", _MUTED)]
        self.update(Content.assemble(*parts))
