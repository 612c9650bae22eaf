"""The side pane on the right (review, plan, debug board or preview), mounted when it is first shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widget import AwaitMount, Widget
from textual.widgets import Static

from tui.panes import PANES, PaneSource, StatePane
from tui.widgets.key_hints import BACK_HINT, HintsChanged, KeyHints, find_hints

ROOMY_HEIGHT: Final = 30  # rows of a window from which on there is a second row for keys


async def wait_until_mounted(widget: Widget) -> None:
    """Wait until a widget has its children; queries for them fail before.

    A query finds a widget as soon as its mounting begins, and the mounting task may have been cancelled.
    """
    if not widget.is_mounted and isinstance(widget.parent, Widget):
        await AwaitMount(widget.parent, [widget])


class SidePane(Vertical):
    """Shows the pane named `current`, "" = hidden; a pane is built from `source` on first use."""

    @dataclass
    class PaneShown(Message):
        """Another pane appeared, "" = none is shown any more."""

        name: str

    def __init__(self, source: PaneSource, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._source = source
        self._panes: dict[str, StatePane] = {}
        self._counts: dict[str, str] = {}
        self.current = ""
        self.display = False

    def compose(self) -> ComposeResult:
        yield Static(id="side-title")
        yield KeyHints(id="side-hint")

    def get_pane(self, name: str) -> StatePane | None:
        """Return a mounted pane; None while it is being mounted or was never shown."""
        pane = self._panes.get(name)
        return pane if pane is not None and pane.is_mounted else None

    async def show(self, name: str) -> StatePane | None:
        """Show a pane, mounted if need be; "" hides all."""
        if name and name not in self._panes:
            spec = next(candidate for candidate in PANES if candidate.name == name)
            pane = self._panes[name] = spec.build(self._source)
            _ = self.mount(pane, before="#side-hint")
        if name:
            await wait_until_mounted(self._panes[name])
        self._show_only(name)
        return self._panes.get(name)

    def hide(self) -> None:
        self._show_only("")

    def _show_only(self, name: str) -> None:
        self.current = name
        self.display = bool(name)
        for pane_name, widget in self._panes.items():
            widget.display = pane_name == name
        self._render_title()
        self.render_hints()
        self.post_message(self.PaneShown(name))

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    @on(events.Resize)
    @on(HintsChanged)
    def render_hints(self) -> None:
        """Show the keys of the focused pane, else the one that leads to it."""
        if self.current and self.is_mounted:
            widget = self.screen.focused
            is_here = widget is not None and self._panes[self.current] in widget.ancestors_with_self
            hints = find_hints(widget, self._panes[self.current]) if widget is not None and is_here else []
            hints = hints if is_here else [(f"app.{self.current}", "to focus")]
            has_way_out = not is_here or any(name.endswith(".cancel") for name, _ in hints)
            unfilter_hints = tuple(hint for hint in hints if hint[0].endswith(".unfilter"))  # before the way back
            hints = [hint for hint in hints if hint not in unfilter_hints]
            fixed_hints = unfilter_hints or (() if has_way_out else (BACK_HINT,))
            rows = 2 if self.screen.size.height >= ROOMY_HEIGHT else 1
            self.query_one(KeyHints).show(hints, fixed_hints=fixed_hints, most_rows=rows)

    def set_count(self, name: str, text: str) -> None:
        if self._counts.get(name) != text:
            self._counts[name] = text
            self._render_title()

    def _render_title(self) -> None:
        if not self.is_mounted:  # it is not put together yet, and `show` renders the title
            return
        parts: list[tuple[str, str]] = []
        for pane in PANES:
            if not pane.is_rare or pane.name in self._panes:
                count = self._counts.get(pane.name, "")
                parts.append((f" {pane.title}", "bold" if pane.name == self.current else "$foreground 60%"))
                parts.append((f" {count}  " if count else "  ", "$warning"))
        self.query_one("#side-title", Static).update(Content.assemble(*parts))
