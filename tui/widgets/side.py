"""The pane on the right: review, plan and preview, one at a time, each mounted when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

TITLES: Final = {"review": "Review", "plan": "Plan", "preview": "Preview"}


class SidePane(Vertical):
    """Shows the pane called `current`; "" = hidden. `makers` build a pane the first time it is shown."""

    class Shown(Message):
        """A pane came up."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self, makers: dict[str, Callable[[], Widget]], *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._makers = makers
        self._panes: dict[str, Widget] = {}
        self._counts: dict[str, str] = {}
        self.current = ""
        self.display = False

    def compose(self) -> ComposeResult:
        yield Static(id="side-title")

    def pane(self, name: str) -> Widget | None:
        """A pane, if it has been shown before."""
        return self._panes.get(name)

    async def show(self, name: str) -> Widget | None:
        """Bring up a pane (mounting it if need be); "" hides all of them."""
        if name and name not in self._panes:
            pane = self._panes[name] = self._makers[name]()
            await self.mount(pane)
        self.current = name
        self.display = bool(name)
        for each, widget in self._panes.items():
            widget.display = each == name
        self._draw_title()
        if name:
            self.post_message(self.Shown(name))
        return self._panes.get(name)

    def count(self, name: str, text: str) -> None:
        """A number beside the title of a pane."""
        if self._counts.get(name) != text:
            self._counts[name] = text
            self._draw_title()

    def _draw_title(self) -> None:
        parts: list[tuple[str, str]] = []
        for name, title in TITLES.items():
            parts.append((f" {title}", "bold" if name == self.current else "$foreground 60%"))
            count = self._counts.get(name, "")
            parts.append((f" {count}  " if count else "  ", "$warning"))
        self.query_one("#side-title", Static).update(Content.assemble(*parts))
