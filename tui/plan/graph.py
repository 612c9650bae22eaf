"""The dependency graph of todos as lines beside them: one row each, in an order in which they can be done.

A todo that others wait for has a lane from its own row down to the last of them; a row joins the lanes of what it
waits for. Lines that only cross do not touch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from itertools import zip_longest
from typing import Final, NamedTuple

from core.protocol.documents import Todo

MAX_LANES: Final = 12
UNDRAWN_MARK: Final = "┄"
UNDRAWN_NOTE: Final = (
    f"{UNDRAWN_MARK} Not all lines are drawn: {MAX_LANES} fit beside each other. The list names what each waits for."
)
# By (goes up, goes down, something comes from the left): how a lane is drawn where the row joins it.
_JOINED: Final[Mapping[tuple[bool, bool, bool], str]] = {
    (True, True, False): "├",
    (True, True, True): "┼",
    (True, False, False): "╰",
    (True, False, True): "┴",
    (False, True, False): "╭",
    (False, True, True): "┬",
    (False, False, False): "─",
    (False, False, True): "─",
}


class GraphRow(NamedTuple):
    """A todo and the lines to its left."""

    lines: str
    todo: Todo


def sort_topologically(todos: Sequence[Todo]) -> list[Todo]:
    """Return each todo after its dependencies, else in the given order; those of a cycle come last."""
    positions = {todo.id: number for number, todo in enumerate(todos)}
    order = TopologicalSorter({todo.id: positions.keys() & set(todo.dependencies) - {todo.id} for todo in todos})
    with suppress(CycleError):
        order.prepare()
    free: list[int] = []
    sorted_todos: dict[str, Todo] = {}
    while order.is_active():
        for key in order.get_ready():
            heappush(free, positions[key])
        todo = todos[heappop(free)]
        sorted_todos[todo.id] = todo
        order.done(todo.id)
    return [*sorted_todos.values(), *(todo for todo in todos if todo.id not in sorted_todos)]


def layout_graph(todos: Sequence[Todo]) -> list[GraphRow]:
    """Return the rows of the graph, equally wide; those that would join a lane left out end in `UNDRAWN_MARK`."""
    rows = sort_topologically(todos)
    positions = {todo.id: number for number, todo in enumerate(rows)}
    last = {todo.id: -1 for todo in rows}
    for number, todo in enumerate(rows):
        for dependency in todo.dependencies:
            if positions.get(dependency, number) < number:
                last[dependency] = number
    lanes: list[str] = []  # by column, the todo whose lane it is; "" = free
    row_parts: list[tuple[str, bool, Todo]] = []
    left_out: set[str] = set()
    for number, todo in enumerate(rows):
        before = list(lanes)
        lanes = [key if key and last[key] > number else "" for key in lanes]
        if last[todo.id] > number and not _open_lane(lanes, before, todo.id):
            left_out.add(todo.id)
        joined_keys = {*(dependency for dependency in todo.dependencies if dependency in before), todo.id}
        is_cut = not left_out.isdisjoint({todo.id, *todo.dependencies})
        row_parts.append((_render_lanes(before, lanes, joined_keys), is_cut, todo))
        while lanes and not lanes[-1]:
            lanes.pop()
    width = max((len(line) for line, *_ in row_parts), default=0)
    return [
        GraphRow(_pad_lanes(line, width, is_incomplete=is_incomplete), todo) for line, is_incomplete, todo in row_parts
    ]


def _open_lane(lanes: list[str], before: Sequence[str], key: str) -> bool:
    """Assign a free lane to a todo; False if there is none."""
    pairs = enumerate(zip_longest(before, lanes))
    free = next((index for index, pair in pairs if not any(pair)), max(len(before), len(lanes)))
    if free >= MAX_LANES:
        return False
    lanes += [""] * (free + 1 - len(lanes))
    lanes[free] = key
    return True


def _render_lanes(before: Sequence[str], after: Sequence[str], joined_keys: set[str]) -> str:
    parts: list[str] = []
    comes = False
    for up, down in zip_longest(before, after, fillvalue=""):
        key = up or down
        if key and key in joined_keys:
            parts.append(_JOINED[bool(up), bool(down), comes])
            comes = True
        else:
            parts.append("│" if key else "─" if comes else " ")
        parts.append("─" if comes else " ")
    return "".join(parts)


def _pad_lanes(line: str, width: int, *, is_incomplete: bool) -> str:
    """Pad to `width` and draw the line on to the todo; `is_incomplete`: mark that not all lines are drawn."""
    padded_line = line + ("─" if line.endswith("─") else " ") * (width - len(line))
    return f"{padded_line[:-1]}{UNDRAWN_MARK}" if is_incomplete else padded_line
