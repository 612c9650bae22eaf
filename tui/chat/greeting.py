"""The words of the greeting, for the widget and for the frame that is drawn before there are widgets."""

from __future__ import annotations

from typing import Final, NamedTuple

from core.modes import Mode

HEADLINE: Final = "Say what you want done and press Enter."
PROMISE: Final = "The agent works on a shadow copy. Your files are untouched until you accept."
NO_PROMISE: Final = "The agent's changes are written to your files at once. /rewind restores them."
KEY_WIDTH: Final = 11  # columns


class FirstKey(NamedTuple):
    """A suggestion for the start. `key_id` is the id of a binding, "" = `key` is a letter; else its default key."""

    key_id: str
    key: str
    what: str


FIRST_KEYS: Final = (
    FirstKey("", "@", "mention a file"),
    FirstKey("", "/", "commands"),
    FirstKey("app.mode_next", "shift+tab", f"mode: {', '.join(mode.title() for mode in Mode)}"),
    FirstKey("app.review", "ctrl+r", "review its changes"),
    FirstKey("app.files", "ctrl+b", "project files"),
    FirstKey("app.palette", "ctrl+p", "search all commands"),
    FirstKey("app.keys", "f1", "all keys"),
)
