"""Rows of todos, and their dependency graph as lines. No widgets.

A todo with dependents has a lane from its own row down to the last of them; a row joins the lanes of its dependencies.
Lines that only cross do not touch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from itertools import zip_longest
from typing import Final, NamedTuple

from textual.content import Content

from core.protocol.documents import Plan, Todo
from core.protocol.events import TodoVerified
from core.protocol.review import Change
from tui.state import ViewState
from tui.text import fit_line
from tui.widgets.text_rows import Piece, find_line_breaks

SIGNS: Final[Mapping[str, tuple[str, str]]] = {
    "pending": ("○", "$foreground 45%"),
    "ready": ("○", "$primary bold"),
    "in_progress": ("◐", "$text-warning bold"),
    "completed": ("●", "$text-success"),
    "cancelled": ("✕", "$foreground 40%"),
}
TEXT_STYLES: Final[Mapping[str, str]] = {
    "pending": "$foreground 60%",
    "ready": "$foreground",
    "in_progress": "$foreground bold",
    "completed": "$foreground 50%",
    "cancelled": "$foreground 40% strike",
}
STATE_NAMES: Final = {"blocked": "pending", "done": "completed", "doing": "in_progress"}
WAITING_STYLE: Final = "$foreground 45% italic"
LANE_STYLE: Final = "$foreground 45%"
ID_STYLE: Final = "$foreground 45%"
DOT: Final = "•"
DOT_STYLE: Final = "bold $accent"
ACTIVITY_STYLE: Final = "$foreground 60%"
MIN_ACTIVITY: Final = 8  # columns
PROGRESS_WIDTH: Final = 12
MAX_TEXT_LENGTH: Final = 600  # maximum characters of a todo
INDENT: Final = "   "
ACTIVITY_LABEL: Final = "running: "
MARGIN: Final = 9  # columns of a row that its words do not have: the sign before, the number of its hunks behind
MAX_LANES: Final = 12
UNDRAWN_MARK: Final = "┄"
UNDRAWN_NOTE: Final = f"{UNDRAWN_MARK} Some lines are not drawn: only {MAX_LANES} fit. The list shows all dependencies."
# By (lane goes up, lane goes down, line from the left): the junction of a lane with a row.
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


@dataclass(frozen=True, slots=True)
class TodoFacts:
    """Facts about todos, by id."""

    todos: Mapping[str, Todo] = field(default_factory=dict)
    proofs: Mapping[str, TodoVerified] = field(default_factory=dict)  # the last results of their commands
    hunks: Mapping[str, int] = field(default_factory=dict)  # number of pending hunks of the todo
    activities: Mapping[str, str] = field(default_factory=dict)  # of the subagents that work on them


def list_open_dependencies(todo: Todo, todos: Mapping[str, Todo]) -> list[str]:
    """Return the ids of todos to complete before this one; a cancelled one does not count."""
    final_statuses = ("completed", "cancelled")
    return [
        dependency
        for dependency in todo.dependencies
        if dependency not in todos or todos[dependency].status not in final_statuses
    ]


def get_state(todo: Todo, todos: Mapping[str, Todo]) -> str:
    """Return the status; "ready" for a pending todo without open dependencies."""
    return "ready" if todo.status == "pending" and not list_open_dependencies(todo, todos) else todo.status


def matches_filter(todo: Todo, todos: Mapping[str, Todo], pattern: str) -> bool:
    """True if every word of a filter is in the todo's id, text or state."""
    state = get_state(todo, todos)
    searchable_text = f"{todo.id} {todo.content} {state.replace('_', ' ')}".lower()
    names = {name for name, candidate in STATE_NAMES.items() if candidate == state}
    return all(word in searchable_text or word in names for word in pattern.lower().split())


def count_rows(todo: Todo, facts: TodoFacts, width: int) -> int:
    """Count the rows that `render_todo` returns."""
    is_waiting = todo.status == "pending" and bool(list_open_dependencies(todo, facts.todos))
    lines = _count_lines(fit_line(todo.content, MAX_TEXT_LENGTH), max(width - MARGIN, 8))
    return lines + is_waiting + bool(todo.verify) + (todo.id in facts.activities)


@lru_cache(maxsize=20_000)
def _count_lines(text: str, width: int) -> int:
    return len(find_line_breaks(text, width))


def render_todo(todo: Todo, facts: TodoFacts, width: int) -> list[list[Piece]]:
    """Return its rows in the list: text, open dependencies, the activity of its subagent, verification."""
    state = get_state(todo, facts.todos)
    sign, colour = SIGNS[state]
    content = fit_line(todo.content, MAX_TEXT_LENGTH)
    texts = [content[start:end] for start, end in find_line_breaks(content, max(width - MARGIN, 8))]
    lines: list[list[Piece]] = [[(f" {sign} ", colour), (texts[0], TEXT_STYLES[state])]]
    lines += [[(INDENT, ""), (text, TEXT_STYLES[state])] for text in texts[1:]]
    if todo.status == "pending" and (waiting := list_open_dependencies(todo, facts.todos)):
        lines.append([(f"{INDENT}waiting for: {fit_line(', '.join(waiting), max(width - 20, 12))}", WAITING_STYLE)])
    if (activity := facts.activities.get(todo.id)) is not None:
        activity = fit_line(activity, max(width - len(ACTIVITY_LABEL) - len(INDENT) - 2, 8))
        lines.append([(f"{INDENT}{ACTIVITY_LABEL}", "$accent"), (activity, "$foreground 60%")])
    if todo.verify:
        lines.append([_format_verification(todo, facts.proofs.get(todo.id), width)])
    return lines


def render_graph_row(todo: Todo, facts: TodoFacts, width: int, lines: str, *, moment: int = 0) -> list[Piece]:
    """Return the row of a todo in the graph, behind `lines`. A subagent at work shows a dot that moves along the
    line with `moment`, and its activity behind the todo."""
    state = get_state(todo, facts.todos)
    sign, colour = SIGNS[state]
    room = max(width - len(lines) - MARGIN - 1, 8)
    column = min(max((len(todo_id) for todo_id in facts.todos), default=len(todo.id)), max(room // 2, 8))
    label = f"{fit_line(todo.id, column):<{column}}"
    text = fit_line(todo.content, max(room - len(label) - 2, 8))
    head: list[Piece] = [(f" {lines}", LANE_STYLE)]
    activity = facts.activities.get(todo.id)
    if activity is not None:
        head = _draw_dot(f" {lines}", moment)
        remaining = room - len(label) - len(text) - 5
        activity = f" · {fit_line(activity, remaining)}" if remaining >= MIN_ACTIVITY else ""
    head += [(f"{sign} ", colour), (f"{label}  ", ID_STYLE), (text, TEXT_STYLES[state])]
    head += [(activity, ACTIVITY_STYLE)] if activity else []
    return [*head, *_format_verification_mark(todo, facts.proofs.get(todo.id))]


def _draw_dot(lines: str, moment: int) -> list[Piece]:
    """Return the lines of a row with a dot on the one that leads to its todo."""
    columns = range(max(len(lines.rstrip("─┄")) - 1, 0), len(lines))
    column = columns[moment % len(columns)]
    return [(lines[:column], LANE_STYLE), (DOT, DOT_STYLE), (lines[column + 1 :], LANE_STYLE)]


def _format_verification_mark(todo: Todo, proof: TodoVerified | None) -> list[Piece]:
    if proof is None or not todo.verify:
        return []
    return [(" ✓", "$text-success")] if proof.has_passed else [(" ✗", "$text-error")]


def _format_verification(todo: Todo, proof: TodoVerified | None, width: int) -> Piece:
    command = fit_line(todo.verify, max(width - 28, 12))
    if proof is None or proof.command != todo.verify:
        return f"{INDENT}verify: {command}", "$foreground 45%"
    if proof.has_passed and proof.changed_here:
        return f"{INDENT}✓ verified, with tests or settings changed here: {command}", "$text-warning"
    if proof.has_passed:
        return f"{INDENT}✓ {'passed, not verified' if proof.is_unboxed else 'verified'}: {command}", "$text-success"
    outcome = "did not finish" if proof.exit_code is None else f"exit code {proof.exit_code}"
    outcome = "proves nothing" if proof.exit_code == 0 else outcome
    return f"{INDENT}✗ verify failed ({outcome}): {command}", "$text-error"


def render_title(plan: Plan | None, todos: Sequence[Todo], width: int) -> Content:
    """Return name and progress of a plan, its overview below."""
    completed_count = sum(todo.status == "completed" for todo in todos)
    count = sum(todo.status != "cancelled" for todo in todos)
    full = round(PROGRESS_WIDTH * completed_count / count) if count else 0
    name = fit_line(plan.name if plan else "Todos", max(width - PROGRESS_WIDTH - 10, 12))
    progress = f"{completed_count}/{count}" if todos else ""
    gap = max(width - len(name) - len(progress) - (PROGRESS_WIDTH + 1 if todos else 0), 1)
    parts = [(name, "bold $foreground"), (" " * gap, "")]
    if todos:
        parts += [("━" * full, "$success"), ("━" * (PROGRESS_WIDTH - full), "$foreground 20%")]
        parts.append((f" {progress}", "$foreground 75%"))
    if plan is not None and plan.overview.strip():
        parts.append(("\n" + fit_line(plan.overview, width * 2), "$foreground 60%"))
    return Content.assemble(*parts)


def map_todo_activity(state: ViewState) -> dict[str, str]:
    """Map todos to the latest activity of the subagents that work on them."""
    return {
        block.subject: block.acts[-1].text if block.acts else "begins"
        for block in state.transcript.find_running_subagents().values()
    }


def count_hunks_by_todo(changes: Iterable[Change]) -> Mapping[str, int]:
    counts: Counter[str] = Counter()
    for change in changes:
        origin = change.origin.todo if change.origin else ""
        counts.update(filter(None, [hunk.todo or origin for hunk in change.hunks] or [origin]))
    return counts


class GraphRow(NamedTuple):
    """A todo and the lines to its left."""

    lines: str
    todo: Todo


def sort_topologically(todos: Sequence[Todo]) -> list[Todo]:
    """Return the todos in topological order, otherwise in the given order; those of a cycle come last."""
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
    """Pad to `width` and extend the line to the todo; `is_incomplete`: mark that lines are missing."""
    padded_line = line + ("─" if line.endswith("─") else " ") * (width - len(line))
    return f"{padded_line[:-1]}{UNDRAWN_MARK}" if is_incomplete else padded_line
