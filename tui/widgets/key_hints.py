"""Hints of the footer: a few keys of the key table with a label each.

A key and its label stay together: rows break between hints.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget

from tui.keymap import format_first_key, get_keymap

Hint = tuple[str, str]  # id of a key, or of several with blanks between, and their label
BACK_HINT: Final[Hint] = ("app.interrupt", "back")
MORE_HINT: Final[Hint] = ("app.keys", "more")
NOTHING_HINTS: Final[tuple[Hint, ...]] = (("app.mode_next", "mode"),)


class HintsChanged(Message):
    """The `hints` of the widget that has the focus have changed."""


class KeyHints(Widget):
    """Shows hints in as many rows as they need. Beyond `most_rows` (0 = no limit) the last hints are replaced by a
    hint at the help; `fixed_hints` always stay."""

    DEFAULT_CSS = "KeyHints { height: auto; }"

    def __init__(self, hints: Iterable[Hint] = (), *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self._hints, self._fixed_hints, self._most_rows = tuple(hints), tuple[Hint, ...](), 0

    def show(self, hints: Iterable[Hint], *, fixed_hints: Iterable[Hint] = (), most_rows: int = 0) -> None:
        state = (tuple(hints), tuple(fixed_hints), most_rows)
        if state != (self._hints, self._fixed_hints, self._most_rows):
            self._hints, self._fixed_hints, self._most_rows = state
            self.refresh(layout=True)

    def _arrange(self, width: int) -> list[Content]:
        keymap, hints, fixed_hints = get_keymap(self.app), self._hints, self._fixed_hints
        rows = arrange_hints((*hints, *fixed_hints), keymap, width)
        while 0 < self._most_rows < len(rows) and hints:
            hints, fixed_hints = hints[:-1], (MORE_HINT, *self._fixed_hints)
            rows = arrange_hints((*hints, *fixed_hints), keymap, width)
        return rows

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._arrange(width))

    def render(self) -> Content:
        return Content("\n").join(self._arrange(self.content_size.width))


def format_hints(hints: Iterable[Hint], keymap: Mapping[str, str]) -> Content:
    """Format keys and labels, muted, in one row, with a margin of a cell at both ends."""
    return Content("").join([*arrange_hints(hints, keymap, 0), Content(" ")])


def arrange_hints(hints: Iterable[Hint], keymap: Mapping[str, str], width: int) -> list[Content]:
    """Return the rows that hints take, with a margin of a cell before them; `width` 0: they are one."""
    contents = [
        Content.assemble(
            (" ".join(format_first_key(key, keymap) for key in keys.split()), "$accent"),
            (f" {word}", "$foreground 60%"),
        )
        for keys, word in hints
    ]
    rows = arrange_choices(contents, "  ", width - 1) if width else [Content("  ").join(contents)]
    return [Content(" ") + row for row in rows]


def arrange_choices(choices: Sequence[Content], gap: str, width: int) -> list[Content]:
    """Return the rows that choices take, of which none is divided."""
    rows: list[Content] = []
    for choice in choices:
        if rows and rows[-1].cell_length + len(gap) + choice.cell_length <= width:
            rows[-1] = Content.assemble(rows[-1], gap, choice)
        else:
            rows.append(choice)
    return rows


def find_hints(widget: Widget, pane: Widget) -> list[Hint]:
    """Return the `hints` of the focused widget, else of the nearest one around it, up to its pane."""
    for node in widget.ancestors_with_self:
        if hints := getattr(node, "hints", ()):
            return list(hints)
        if node is pane:
            break
    return []
