"""The todos of a plan as a list or a graph with a cursor; only visible rows are rendered.

For all todos only their last rows are computed, so five thousand cost no more than a screenful.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip
from textual.timer import Timer

from core.protocol.documents import Todo
from tui.keymap import get_bindings
from tui.plan.todo_rows import GraphRow, TodoFacts, count_rows, render_graph_row, render_todo
from tui.themes.appearance import is_read_out
from tui.widgets.row_view import CursorView
from tui.widgets.text_rows import Piece, measure_text

SIGN_COLUMNS = range(1, 3)
DOT_INTERVAL = 0.25  # seconds


class TodoList(CursorView):
    """The list of todos; the cursor keeps its todo or its index."""

    ALLOW_SELECT = False  # dragging moves a todo

    DEFAULT_CSS = """
    TodoList { height: auto; max-height: 60%; overflow-x: hidden; }
    """

    BINDINGS = get_bindings("todos")

    class StatusClicked(Message):
        """Requests the next status for the current todo."""

    @dataclass
    class Dropped(Message):
        """A todo was dragged to the position of `target`."""

        id: str
        target: str

    class TextRequested(Message):
        """Requests the text of the plan."""

    class HunksRequested(Message):
        """Requests the hunks of the current todo."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: Sequence[GraphRow] = ()
        self._facts = TodoFacts()
        self._is_graph = False
        self._ends: list[int] = []
        self._rendered: dict[int, list[list[Piece]]] = {}
        self._width = 20
        self._dragged = ""
        self._target = -1
        self._has_dropped = False
        self._working = ""  # the todo in progress that was last brought into view
        self._moment = 0
        self._timer: Timer | None = None

    def show(self, rows: Sequence[GraphRow], facts: TodoFacts, *, is_graph: bool) -> None:
        current_todo, is_first = self.current_todo, not self._rows
        self._rows, self._facts, self._is_graph = rows, facts, is_graph
        index = next(
            (number for number, row in enumerate(rows) if current_todo and row.todo.id == current_todo.id), self.cursor
        )
        working = next((number for number, row in enumerate(rows) if row.todo.status == "in_progress"), -1)
        name = rows[working].todo.id if working >= 0 else ""
        index = working if name and name != self._working and not (is_first or self.has_focus) else index
        self._working = name
        self._lay_out()
        self.move_to(index)
        self._animate_dots()

    def _animate_dots(self) -> None:
        """Run a timer while subagents work and are seen to, and at no other time."""
        moves = self._is_graph and bool(self._facts.activities) and self.is_on_screen and not is_read_out(self.app)
        if moves and self._timer is None:
            self._timer = self.set_interval(DOT_INTERVAL, self._move_dots)
        elif not moves and self._timer is not None:
            self._timer.stop()
            self._timer = None

    def _move_dots(self) -> None:
        if not self.is_on_screen:
            self._animate_dots()
            return
        self._moment += 1
        for entry, row in enumerate(self._rows):
            if row.todo.id in self._facts.activities:
                self._rendered.pop(entry, None)
        self.redraw()

    def on_show(self) -> None:
        self._animate_dots()

    def _lay_out(self) -> None:
        self._width = width = max(self.container_size.width - 1, 20)  # independent of a scroll bar
        heights = (1 if self._is_graph else count_rows(row.todo, self._facts, width) for row in self._rows)
        self._ends = list(accumulate(heights))
        self._rendered.clear()
        self.virtual_size = Size(0, self._ends[-1] if self._ends else 0)

    @property
    def current_todo(self) -> Todo | None:
        return self._rows[self.cursor].todo if self.cursor < len(self._rows) else None

    def select_todo(self, key: str) -> bool:
        """Move the cursor to a todo. Return False if it is not in the list."""
        index = next((number for number, row in enumerate(self._rows) if row.todo.id == key), None)
        if index is not None:
            self.move_to(index)
        return index is not None

    def move_to(self, index: int) -> None:
        self.cursor = max(min(index, len(self._rows) - 1), 0)
        if self._ends:
            self.reveal_rows(self._find_first_row(self.cursor), self._ends[self.cursor] - 1)
        self.redraw()

    def _find_first_row(self, entry: int) -> int:
        return self._ends[entry - 1] if entry else 0

    def _find_entry(self, row: int) -> int:
        """Return the index of the todo at a row, -1 = none."""
        return bisect_right(self._ends, row) if self._ends and 0 <= row < self._ends[-1] else -1

    # Drawing

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self._lay_out()
        self.move_to(self.cursor)

    def get_row_text(self, row: int) -> str:
        entry = self._find_entry(row)
        return self._rows[entry].todo.content if entry >= 0 else ""

    def render_row(self, row: int, width: int, shift: int) -> Strip:
        entry = self._find_entry(row)
        base = self.resolve_style(self._choose_background(entry))
        pieces = self._render_entry(entry)[row - self._find_first_row(entry)]
        strip = self.render_styled(pieces, base)
        badge = self._format_hunk_badge(entry) if row == self._find_first_row(entry) else ""
        strip = strip.adjust_cell_length(max(width - measure_text(badge), 0), base.rich_style)
        tail = self.render_styled([(badge, "$text-secondary")], base)
        return Strip.join([strip, tail]).adjust_cell_length(width, base.rich_style)

    def _choose_background(self, entry: int) -> str:
        if entry == self._target:
            return "on $accent 35%"
        if entry != self.cursor:
            return ""
        return "on $marked-row" if self.has_focus else "on $foreground 10%"

    def _render_entry(self, entry: int) -> list[list[Piece]]:
        if (cached_rows := self._rendered.get(entry)) is not None:
            return cached_rows
        (lines, todo), facts, width = self._rows[entry], self._facts, self._width
        if self._is_graph:
            rows = [render_graph_row(todo, facts, width, lines, moment=self._moment)]
        else:
            rows = render_todo(todo, facts, width)
        self._rendered[entry] = rows
        return rows

    def _format_hunk_badge(self, entry: int) -> str:
        """Format the number of pending hunks of a todo, "" = none."""
        count = self._facts.hunks.get(self._rows[entry].todo.id, 0)
        return f" ±{min(count, 999)} " if count else ""

    on_focus = CursorView.redraw

    def on_blur(self) -> None:
        self._stop_dragging()

    # Keys

    def action_page(self, step: int) -> None:
        row = self._find_first_row(self.cursor) if self._ends else 0
        entry = self._find_entry(row + step * max(self.size.height - 1, 1))
        self.move_to(entry if entry >= 0 else (len(self._rows) if step > 0 else 0))

    def action_read_text(self) -> None:
        self.post_message(self.TextRequested())

    # The mouse

    def _locate_mouse(self, event: events.MouseEvent) -> tuple[int, int, bool]:
        """Return the todo under the mouse (-1 = none), the column, and True on the todo's first row."""
        offset = event.get_content_offset(self)
        if offset is None:
            return -1, 0, False
        row = offset.y + self.scroll_offset.y
        entry = self._find_entry(row)
        return entry, offset.x, entry >= 0 and row == self._find_first_row(entry)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        entry, _, _ = self._locate_mouse(event)
        self._has_dropped = False
        if event.button == 1 and entry >= 0 and not self._is_graph:
            self._dragged = self._rows[entry].todo.id
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if not self._dragged:
            return
        offset = event.get_content_offset_capture(self)
        if not 0 <= offset.y < self.size.height:
            self.scroll_relative(y=-1 if offset.y < 0 else 1, animate=False)
        entry = self._find_entry(max(offset.y, 0) + self.scroll_offset.y)
        is_away = entry >= 0 and self._rows[entry].todo.id != self._dragged
        target = entry if is_away else -1
        if target != self._target:
            self._target = target
            self.redraw()

    def on_mouse_up(self, event: events.MouseUp) -> None:
        dragged_id, target = self._dragged, self._target
        self._stop_dragging()
        if dragged_id and 0 <= target < len(self._rows):
            self._has_dropped = True
            self.select_todo(dragged_id)
            self.post_message(self.Dropped(dragged_id, self._rows[target].todo.id))

    def _stop_dragging(self) -> None:
        if self._dragged:
            self.release_mouse()
        self._dragged, self._target = "", -1
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        entry, column, is_first = self._locate_mouse(event)
        if entry < 0 or self._has_dropped:  # the end of dragging is a click, too
            return
        self.move_to(entry)
        badge = self._format_hunk_badge(entry)
        if is_first and badge and column >= self.size.width - len(badge):
            self.post_message(self.HunksRequested())
        elif (is_first and column - len(self._rows[entry].lines) in SIGN_COLUMNS) or event.chain == 2:
            self.post_message(self.StatusClicked())
