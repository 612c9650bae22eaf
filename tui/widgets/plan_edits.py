"""What the user's changes make of a list of todos. Pure; the engine has the last word on every one of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec.structs import replace

from core.protocol.documents import Todo, TodoStatus

Todos = tuple[Todo, ...]


def identity(content: str, todos: Sequence[Todo]) -> str:
    """A short id for a new todo, one that no other has."""
    words = re.findall(r"[a-z0-9]+", content.lower())[:4]
    base = "-".join(words)[:32].strip("-") or "todo"
    taken = {todo.id for todo in todos}
    return next(key for key in (base, *(f"{base}-{n}" for n in range(2, len(todos) + 3))) if key not in taken)


def added(todos: Todos, after: str, content: str) -> Todos:
    """With a new todo behind `after` ("" = at the end)."""
    new = Todo(id=identity(content, todos), content=content)
    at = next((number + 1 for number, todo in enumerate(todos) if todo.id == after), len(todos))
    return (*todos[:at], new, *todos[at:])


def removed(todos: Todos, key: str) -> Todos:
    """Without a todo; nobody waits for it any more."""
    return tuple(
        replace(todo, dependencies=tuple(each for each in todo.dependencies if each != key))
        for todo in todos
        if todo.id != key
    )


def moved(todos: Todos, key: str, step: int) -> Todos:
    """With a todo a place higher or lower."""
    at = next((number for number, todo in enumerate(todos) if todo.id == key), -1)
    to = at + step
    if at < 0 or not 0 <= to < len(todos):
        return todos
    changed = list(todos)
    changed.insert(to, changed.pop(at))
    return tuple(changed)


def placed(todos: Todos, key: str, target: str) -> Todos:
    """With a todo taken to where another one stands; those between make room."""
    places = {todo.id: number for number, todo in enumerate(todos)}
    return moved(todos, key, places[target] - places[key]) if {key, target} <= places.keys() else todos


def ids_in(text: str) -> tuple[str, ...]:
    """Ids as they are typed: with commas between them, each once."""
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def with_content(todos: Todos, key: str, content: str) -> Todos:
    return tuple(replace(todo, content=content) if todo.id == key else todo for todo in todos)


def with_needs(todos: Todos, key: str, needs: tuple[str, ...]) -> Todos:
    return tuple(replace(todo, dependencies=needs) if todo.id == key else todo for todo in todos)


def with_proof(todos: Todos, key: str, command: str) -> Todos:
    return tuple(replace(todo, verify=command) if todo.id == key else todo for todo in todos)


def with_status(todos: Todos, keys: frozenset[str], status: TodoStatus) -> Todos:
    return tuple(replace(todo, status=status) if todo.id in keys else todo for todo in todos)


def dependants(todos: Sequence[Todo], key: str) -> tuple[str, ...]:
    """The open todos that wait for `key`, directly or through others."""
    reached, reach = set[str](), [key]
    while reach:
        now = reach.pop()
        fresh = [each.id for each in todos if now in each.dependencies and each.id not in reached]
        reached.update(fresh)
        reach += fresh
    return tuple(todo.id for todo in todos if todo.id in reached - {key} and todo.status in {"pending", "in_progress"})
