"""Hints: a few keys and what they do, as a widget names them for the footer. The keys are those of the key table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from tui.keymap import format_first_key

Hint = tuple[str, str]  # the id of a key and a word for what it does
BACK_HINT: Final[Hint] = ("app.interrupt", "back")
NOTHING_HINTS: Final[tuple[Hint, ...]] = (("app.mode_next", "mode"),)


class HintsChanged(Message):
    """The `hints` of the widget that has the focus have changed."""


def format_hints(hints: Iterable[Hint], keymap: Mapping[str, str]) -> Content:
    """Return the keys of the user and what they do, muted."""
    parts: list[tuple[str, str]] = []
    for key, word in hints:
        parts += [(f" {format_first_key(key, keymap)}", "$accent"), (f" {word} ", "$foreground 60%")]
    return Content.assemble(*parts)


def find_hints(focused: Widget, pane: Widget) -> list[Hint]:
    """Return the `hints` of the focused widget, else of the nearest one around it, up to its pane."""
    for node in focused.ancestors_with_self:
        if hints := getattr(node, "hints", ()):
            return list(hints)
        if node is pane:
            break
    return []
