"""How a todo is drawn: its sign, its words, what it waits for and how its proof went. And the plan's title. Styles are
named in theme variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from textual.content import Content

from core.protocol.documents import Todo
from core.protocol.events import TodoVerified
from core.protocol.plans import Plan
from tui.text import one_line
from tui.widgets.rows import Piece, breaks

SIGNS: Final[Mapping[str, tuple[str, str]]] = {
    "pending": ("○", "$foreground 45%"),
    "ready": ("○", "$primary bold"),
    "in_progress": ("◐", "$text-warning bold"),
    "completed": ("●", "$text-success"),
    "cancelled": ("✕", "$foreground 40%"),
}
TEXTS: Final[Mapping[str, str]] = {
    "pending": "$foreground 60%",
    "ready": "$foreground",
    "in_progress": "$foreground bold",
    "completed": "$foreground 50%",
    "cancelled": "$foreground 40% strike",
}
STATES: Final = {"blocked": "pending", "done": "completed", "doing": "in_progress"}
WAITS: Final = "$foreground 45% italic"
LINES: Final = "$foreground 45%"
BAR: Final = 12
LONGEST: Final = 600  # characters of a todo that are shown
INDENT: Final = "   "
AT_WORK: Final = "at work: "
MARGIN: Final = 9  # columns of a row that its words do not have: the sign before, the number of its hunks behind


def waits_for(todo: Todo, todos: Mapping[str, Todo]) -> list[str]:
    """The ids of the todos that have to be completed before this one; a cancelled one is waited for no more."""
    settled = ("completed", "cancelled")
    return [each for each in todo.dependencies if each not in todos or todos[each].status not in settled]


def state_of(todo: Todo, todos: Mapping[str, Todo]) -> str:
    """Its status; a pending todo that waits for nothing is "ready"."""
    return "ready" if todo.status == "pending" and not waits_for(todo, todos) else todo.status


def fits(todo: Todo, todos: Mapping[str, Todo], pattern: str) -> bool:
    """Whether every word of a filter is in the todo: in its id, its words or the name of its state."""
    state = state_of(todo, todos)
    shown = f"{todo.id} {todo.content} {state.replace('_', ' ')}".lower()
    names = {name for name, each in STATES.items() if each == state}
    return all(word in shown or word in names for word in pattern.lower().split())


def row_height(todo: Todo, todos: Mapping[str, Todo], width: int, *, works: bool = False) -> int:
    """How many rows of the list it takes, as `todo_lines` draws it. `works`: a subagent is at it."""
    waits = todo.status == "pending" and bool(waits_for(todo, todos))
    return _count(one_line(todo.content, LONGEST), max(width - MARGIN, 8)) + waits + bool(todo.verify) + works


@lru_cache(maxsize=20_000)
def _count(text: str, width: int) -> int:
    return len(breaks(text, width))


def todo_lines(
    todo: Todo, todos: Mapping[str, Todo], width: int, *, proof: TodoVerified | None = None, doing: str | None = None
) -> list[list[Piece]]:
    """Its rows in the list: what is to be done, what it waits for, how its proof went. `doing`: what the subagent that
    is at it does, None = none is."""
    state = state_of(todo, todos)
    sign, colour = SIGNS[state]
    content = one_line(todo.content, LONGEST)
    texts = [content[start:end] for start, end in breaks(content, max(width - MARGIN, 8))]
    lines: list[list[Piece]] = [[(f" {sign} ", colour), (texts[0], TEXTS[state])]]
    lines += [[(INDENT, ""), (text, TEXTS[state])] for text in texts[1:]]
    if todo.status == "pending" and (waiting := waits_for(todo, todos)):
        lines.append([(f"{INDENT}waits for: {one_line(', '.join(waiting), max(width - 20, 12))}", WAITS)])
    if doing is not None:
        doing = one_line(doing, max(width - len(AT_WORK) - len(INDENT) - 2, 8))
        lines.append([(f"{INDENT}{AT_WORK}", "$accent"), (doing, "$foreground 60%")])
    if todo.verify:
        lines.append([_proof_line(todo, proof, width)])
    return lines


def graph_line(
    todo: Todo, todos: Mapping[str, Todo], width: int, *, lines: str, proof: TodoVerified | None, works: bool = False
) -> list[Piece]:
    """Its one row of the graph, behind the `lines` that lead to it. `works`: a subagent is at it."""
    state = state_of(todo, todos)
    sign, colour = SIGNS[state]
    mark = AT_WORK if works else ""
    text = one_line(f"{todo.id}  {todo.content}", max(width - len(lines) - MARGIN - 1 - len(mark), 8))
    rest: list[Piece] = [(mark, "$accent"), (text, TEXTS[state]), *_proof_mark(todo, proof)]
    return [(f" {lines}", LINES), (f"{sign} ", colour), *rest]


def _proof_mark(todo: Todo, proof: TodoVerified | None) -> list[Piece]:
    if proof is None or not todo.verify:
        return []
    return [(" ✓", "$text-success")] if proof.exit_code == 0 else [(" ✗", "$text-error")]


def _proof_line(todo: Todo, proof: TodoVerified | None, width: int) -> Piece:
    command = one_line(todo.verify, max(width - 28, 12))
    if proof is None or proof.command != todo.verify:
        return f"{INDENT}verify: {command}", "$foreground 45%"
    if proof.exit_code == 0:
        return f"{INDENT}✓ verified: {command}", "$text-success"
    how = "did not end" if proof.exit_code is None else f"exit code {proof.exit_code}"
    return f"{INDENT}✗ verify failed ({how}): {command}", "$text-error"


def title(plan: Plan | None, todos: Sequence[Todo], width: int) -> Content:
    """The plan's name and how far it is, with its overview below."""
    done = sum(todo.status == "completed" for todo in todos)
    count = sum(todo.status != "cancelled" for todo in todos)
    full = round(BAR * done / count) if count else 0
    name = one_line(plan.name if plan else "Todos", max(width - BAR - 10, 12))
    progress = f"{done}/{count}" if todos else ""
    gap = max(width - len(name) - len(progress) - (BAR + 1 if todos else 0), 1)
    parts = [Content.styled(name, "bold $foreground"), Content(" " * gap)]
    if todos:
        parts += [Content.styled("━" * full, "$success"), Content.styled("━" * (BAR - full), "$foreground 20%")]
        parts.append(Content.styled(f" {progress}", "$foreground 75%"))
    if plan is not None and plan.overview.strip():
        parts.append(Content.styled("\n" + one_line(plan.overview, width * 2), "$foreground 60%"))
    return Content.assemble(*parts)
