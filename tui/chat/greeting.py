"""What an empty conversation shows: the promise of the shadow, and the first keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from textual.content import Content
from textual.widgets import Static

from core.modes import Mode
from tui.keymap import format_first_key

_MUTED: Final = "$foreground 60%"
_PROMISE: Final = "The agent works in a shadow of this project: nothing reaches your files until you accept it."
_FIRST_KEYS: Final = (
    ("@", "name a file"),
    ("/", "commands"),
    ("app.mode_next", f"mode: {', '.join(mode.title() for mode in Mode)}"),
    ("app.review", "review what it changed"),
    ("app.files", "files of the project"),
    ("app.palette", "search every command"),
    ("app.keys", "all keys"),
)


class Greeting(Static):
    """Shown until the first prompt; without state."""

    def show(self, keymap: Mapping[str, str], note: str = "") -> None:
        """Render with the user's keys and a note for the start, "" = none."""
        parts = [("Say what you want done and press Enter.\n", "bold"), (f"{_PROMISE}\n", _MUTED)]
        parts.append((f"{note}\n\n" if note else "\n", "$text-warning"))
        for way, what in _FIRST_KEYS:
            how = format_first_key(way, keymap) if "." in way else way
            parts += [(f"{how:<11}", "$accent"), (f"{what}\n", _MUTED)]
        self.update(Content.assemble(*parts))
