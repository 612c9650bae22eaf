"""The pane of the subagents: one entry each, live; Enter opens what one says and does, x stops it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from textual import events
from textual.app import ComposeResult
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from tui.agents.roster_rows import ROWS, RosterEntry, list_entries, render_entry
from tui.keymap import get_bindings, get_keymap, insert_keys
from tui.panes import StatePane
from tui.state import ViewState
from tui.widgets.key_hints import NOTHING_HINTS, Hint, HintsChanged
from tui.widgets.row_view import CursorView
from tui.widgets.text_rows import measure_pieces

EMPTY: Final = (
    "No subagent has worked yet\n\nThe agent gives tasks to subagents by itself, or when you name one: @agent-explore. "
    "/agents lists the kinds, /best tries a prompt several times side by side."
)


class RosterList(CursorView):
    """Lists entries of two rows, the latest below; the cursor stays on its entry, and until it is moved goes to who
    asks. `empty`: the text without entries."""

    DEFAULT_CSS = """
    RosterList { overflow-x: hidden; }
    """
    empty = ""

    def __init__(self) -> None:
        super().__init__()
        self._entries: Sequence[RosterEntry] = ()

    @property
    def current(self) -> RosterEntry | None:
        return self._entries[self.cursor] if self.cursor < len(self._entries) else None

    @property
    def hints(self) -> tuple[Hint, ...]:
        """The keys that do something to the entry at the cursor."""
        return NOTHING_HINTS

    def show(self, entries: Sequence[RosterEntry]) -> None:
        current_entry, before = self.current, self.hints
        follows = self.cursor >= len(self._entries) - 1
        self._entries = entries
        self.virtual_size = Size(0, ROWS * len(entries))
        index = next(
            (number for number, entry in enumerate(entries) if current_entry and entry.id == current_entry.id),
            self.cursor,
        )
        if not self.has_focus:
            last = len(entries) - 1 if follows else index
            index = next((number for number, entry in enumerate(entries) if entry.condition == "asking"), last)
        self.move_to(index)
        if self.hints != before:
            self.post_message(HintsChanged())

    def move_to(self, index: int) -> None:
        before = self.cursor
        self.cursor = max(min(index, len(self._entries) - 1), 0)
        if self._entries:
            self.reveal_rows(self.cursor * ROWS, self.cursor * ROWS + ROWS - 1)
        if self.cursor != before:
            self.post_message(HintsChanged())
        self.redraw()

    def count_rows(self) -> int:
        return ROWS * len(self._entries) or self.size.height

    def get_row_text(self, row: int) -> str:
        entry = row // ROWS
        return f"{self._entries[entry].title}: {self._entries[entry].said}" if entry < len(self._entries) else ""

    def render_row(self, row: int, width: int, shift: int) -> Strip:
        if not self._entries:
            return self.render_message(insert_keys(self.empty, get_keymap(self.app)), row, width)
        entry, line = divmod(row, ROWS)
        base = self.resolve_style(self._choose_background(entry))
        left_pieces, right = render_entry(self._entries[entry], line, width)
        room = max(width - measure_pieces(right), 0)
        strip = self.render_styled(left_pieces, base).adjust_cell_length(room, base.rich_style)
        return Strip.join([strip, self.render_styled(right, base)]).adjust_cell_length(width, base.rich_style)

    def _choose_background(self, entry: int) -> str:
        if entry != self.cursor:
            return ""
        return "on $marked-row" if self.has_focus else "on $foreground 10%"

    on_focus = CursorView.redraw
    on_blur = CursorView.redraw

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self.move_to(self.cursor)

    def on_click(self, event: events.Click) -> None:
        entry = (event.y + self.scroll_offset.y) // ROWS
        if entry < len(self._entries):
            self.move_to(entry)
            if event.chain == 2:
                self.action_open()

    def action_open(self) -> None:
        """Open the entry at the cursor."""


class RosterPane(StatePane):
    """A pane that one list of entries fills."""

    DEFAULT_CSS = """
    RosterPane { height: 1fr; }
    """

    def __init__(self, entries: RosterList) -> None:
        super().__init__()
        self.list = entries

    def compose(self) -> ComposeResult:
        yield self.list

    def focus(self, scroll_visible: bool = True) -> RosterPane:
        self.list.focus(scroll_visible)
        return self


class AgentList(RosterList):
    """Lists the subagents of the session."""

    BINDINGS = get_bindings("agents")
    empty = EMPTY

    @dataclass
    class Opened(Message):
        """A subagent's conversation is to be shown."""

        id: str

    @dataclass
    class Stopped(Message):
        """A subagent is to be stopped."""

        id: str

    @property
    def hints(self) -> tuple[Hint, ...]:
        if (current := self.current) is None:
            return NOTHING_HINTS
        opening: Hint = ("agents.open", "read along" if current.is_working else "read")
        return (opening, ("agents.stop", "stop")) if current.is_working else (opening,)

    def action_open(self) -> None:
        if self.current is not None:
            self.post_message(self.Opened(self.current.id))

    def action_stop(self) -> None:
        if self.current is not None and self.current.is_working:
            self.post_message(self.Stopped(self.current.id))


class AgentRoster(RosterPane):
    """Shows the subagents of the session's state."""

    def __init__(self) -> None:
        super().__init__(AgentList())

    def show_state(self, state: ViewState) -> None:
        self.list.show(list_entries(state))
