"""Edits of a list of todos, as pure functions. The engine validates every edit again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import get_args

from msgspec.structs import replace

from core.protocol.documents import Todo, TodoStatus

Todos = tuple[Todo, ...]


def make_todo_id(content: str, todos: Sequence[Todo]) -> str:
    """Return a short id for a new todo that no other has."""
    words = re.findall(r"[a-z0-9]+", content.lower())[:4]
    base = "-".join(words)[:32].strip("-") or "todo"
    used_ids = {todo.id for todo in todos}
    return next(key for key in (base, *(f"{base}-{n}" for n in range(2, len(todos) + 3))) if key not in used_ids)


def add_todo(todos: Todos, after: str, content: str) -> Todos:
    """Return `todos` with a new one behind `after` ("" = at the end)."""
    new = Todo(id=make_todo_id(content, todos), content=content)
    index = next((number + 1 for number, todo in enumerate(todos) if todo.id == after), len(todos))
    return (*todos[:index], new, *todos[index:])


def remove_todo(todos: Todos, todo_id: str) -> Todos:
    """Return `todos` without one; nothing depends on it any more."""
    return tuple(
        replace(todo, dependencies=tuple(dependency for dependency in todo.dependencies if dependency != todo_id))
        for todo in todos
        if todo.id != todo_id
    )


def move_todo(todos: Todos, todo_id: str, step: int) -> Todos:
    """Return `todos` with one moved by `step` positions."""
    index = next((number for number, todo in enumerate(todos) if todo.id == todo_id), -1)
    to = index + step
    if index < 0 or not 0 <= to < len(todos):
        return todos
    new_todos = list(todos)
    new_todos.insert(to, new_todos.pop(index))
    return tuple(new_todos)


def move_todo_to(todos: Todos, todo_id: str, target: str) -> Todos:
    """Return `todos` with one moved to the position of `target`."""
    places = {todo.id: number for number, todo in enumerate(todos)}
    return move_todo(todos, todo_id, places[target] - places[todo_id]) if {todo_id, target} <= places.keys() else todos


def parse_ids(text: str) -> tuple[str, ...]:
    """Return comma-separated ids without duplicates."""
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def change_todos(todos: Todos, *keys: str, **fields: object) -> Todos:
    """Return `todos` with these fields in those with one of the ids."""
    return tuple(replace(todo, **fields) if todo.id in keys else todo for todo in todos)


def get_next_status(status: TodoStatus) -> TodoStatus:
    """Return the status after this one, in a circle."""
    order = get_args(TodoStatus)
    following: TodoStatus = order[(order.index(status) + 1) % len(order)]
    return following


def find_dependants(todos: Sequence[Todo], key: str) -> tuple[str, ...]:
    """Return the ids of open todos that depend on `key`, directly or through others."""
    dependants, reach = set[str](), [key]
    while reach:
        now = reach.pop()
        fresh = [todo.id for todo in todos if now in todo.dependencies and todo.id not in dependants]
        dependants.update(fresh)
        reach += fresh
    return tuple(
        todo.id for todo in todos if todo.id in dependants - {key} and todo.status in {"pending", "in_progress"}
    )
