"""The head of the review: the files that wait, the one that is shown, how large each change is, what is special."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from core.protocol.review import Change
from tui.text import named
from tui.widgets.code_view import cells
from tui.widgets.review_words import SIGNS, badges

MOST_ROWS: Final = 6
TALL: Final = 24  # rows of the pane from which several files are listed


class ReviewFiles(Widget):
    """One row a file, the current one marked; in a low pane only that one."""

    DEFAULT_CSS = "ReviewFiles { height: auto; background: $surface; }"

    @dataclass
    class Chosen(Message):
        """A file was clicked."""

        index: int

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._changes: tuple[Change, ...] = ()
        self._current = 0
        self._sent: frozenset[str] = frozenset()

    def show(self, changes: tuple[Change, ...], current: int, sent: frozenset[str] = frozenset()) -> None:
        """`sent`: paths with a verdict under way."""
        self._changes, self._current, self._sent = changes, current, sent
        self.display = bool(changes)
        self.refresh(layout=True)

    def _window(self) -> range:
        """The indices of the files that have a row."""
        height = self.parent.size.height if isinstance(self.parent, Widget) else 0
        most = MOST_ROWS if height >= TALL else 1
        first = max(min(self._current - most // 2, len(self._changes) - most), 0)
        return range(first, min(first + most, len(self._changes)))

    def render(self) -> Content:
        width = self.size.width
        return Content("\n").join(self._row(index, width) for index in self._window())

    def on_resize(self) -> None:
        self.refresh(layout=True)

    def _row(self, index: int, width: int) -> Content:
        change, is_current = self._changes[index], index == self._current
        sign, colour = SIGNS[change.operation]
        place = f"{index + 1}/{len(self._changes)}" if is_current else ""
        most = (max(each.added for each in self._changes), max(each.removed for each in self._changes))
        counts = [
            (f" {f'+{change.added}' if change.added else '':>{len(str(most[0])) + 1}}", "$text-success"),
            (f" {f'−{change.removed}' if change.removed else '':>{len(str(most[1])) + 1}}", "$text-error"),
        ]
        tail = [*badges(change), *counts, (f" {place:>{2 * len(str(len(self._changes))) + 1}} ", "$foreground 55%")]
        room = max(width - sum(cells(text) for text, _ in tail) - 4, 8)
        path = _shortened(change.path, room)
        if change.renamed_from and len(path) + len(change.renamed_from) + 3 <= room:
            path = f"{named(change.renamed_from)} → {path}"
        style = "bold $foreground" if is_current else "$foreground 65%"
        head = [("▌" if is_current else " ", "$primary"), (f"{sign} ", colour), (path, style)]
        if change.path in self._sent:
            head.append((" …", "$text-warning"))
        gap = max(width - sum(cells(text) for text, _ in (*head, *tail)), 1)
        return Content.assemble(*(Content.styled(*part) for part in (*head, (" " * gap, ""), *tail)))

    def on_click(self, event: events.Click) -> None:
        window = self._window()
        if 0 <= event.y < len(window):
            self.post_message(self.Chosen(window[event.y]))


def _shortened(path: str, room: int) -> str:
    """A path that fits: its start is left out first, for the name is what is looked for."""
    text = named(path, 1000)
    return text if len(text) <= room else "…" + text[-(room - 1) :]
