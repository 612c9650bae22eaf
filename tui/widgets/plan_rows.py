"""How a todo is drawn: its sign, its words, what it waits for and how its proof went. And the plan's title."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from textual.content import Content

from core.protocol.documents import Todo
from core.protocol.events import TodoVerified
from core.protocol.plans import Plan
from tui.text import one_line

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
BAR: Final = 12


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


def todo_row(
    todo: Todo, todos: Mapping[str, Todo], width: int, *, lines: str = "", proof: TodoVerified | None = None
) -> Content:
    """A row of the list; with `lines` one of the graph, which is a single line high."""
    waiting = waits_for(todo, todos) if todo.status == "pending" else []
    state = state_of(todo, todos)
    sign, colour = SIGNS[state]
    if lines:
        room = max(width - len(lines) - 5, 8)
        text = Content.styled(one_line(f"{todo.id}  {todo.content}", room), TEXTS[state])
        mark = _proof_mark(todo, proof)
        return Content.assemble(
            Content.styled(f" {lines}", "$foreground 45%"), Content.styled(f"{sign} ", colour), text, mark
        )
    words = Content.styled(one_line(todo.content, 600), TEXTS[state]).wrap(max(width - 4, 8))
    parts = [Content.styled(f" {sign} ", colour), words[0]]
    for line in words[1:]:
        parts += [Content("\n   "), line]
    if waiting:
        names = one_line(", ".join(waiting), max(width - 20, 12))
        parts.append(Content.styled(f"\n   waits for: {names}", "$foreground 45% italic"))
    return Content.assemble(*parts, _proof_line(todo, proof, width))


def _proof_mark(todo: Todo, proof: TodoVerified | None) -> Content:
    if proof is None or not todo.verify:
        return Content("")
    return Content.styled(" ✓", "$text-success") if proof.exit_code == 0 else Content.styled(" ✗", "$text-error")


def _proof_line(todo: Todo, proof: TodoVerified | None, width: int) -> Content:
    if not todo.verify:
        return Content("")
    command = one_line(todo.verify, max(width - 28, 12))
    if proof is None or proof.command != todo.verify:
        return Content.styled(f"\n   verify: {command}", "$foreground 45%")
    if proof.exit_code == 0:
        return Content.styled(f"\n   ✓ verified: {command}", "$text-success")
    how = "did not end" if proof.exit_code is None else f"exit code {proof.exit_code}"
    return Content.styled(f"\n   ✗ verify failed ({how}): {command}", "$text-error")


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
