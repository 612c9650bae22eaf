"""The dependency graph of todos: what is wrong with it, what is ready, what waits on what. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from core.errors import ToolInputInvalid
from core.protocol.documents import Todo

DONE = frozenset({"completed", "cancelled"})


def problems(todos: Sequence[Todo]) -> tuple[str, ...]:
    """What keeps the todos from being a graph that can be worked off, one sentence each; empty when all is well."""
    return (*_identity_problems(todos), *_edge_problems(todos), *_cycle_problems(todos))


def check(todos: Sequence[Todo]) -> None:
    """Raise `ToolInputInvalid` that names every problem."""
    found = problems(todos)
    if found:
        raise ToolInputInvalid(
            "The todos are inconsistent: " + " ".join(found),
            hint="Nothing was changed. Give every todo its own id, and let dependencies name ids of earlier work only.",
        )


def ready(todos: Sequence[Todo]) -> tuple[Todo, ...]:
    """The pending todos that nothing keeps from being started, in their order."""
    waiting = blocked_by(todos)
    return tuple(todo for todo in todos if todo.status == "pending" and todo.id not in waiting)


def blocked_by(todos: Sequence[Todo]) -> dict[str, tuple[str, ...]]:
    """For each todo that is not done and has to wait: the ids that it waits for. Unknown ids don't block."""
    status = {todo.id: todo.status for todo in todos}
    waits = {
        todo.id: tuple(each for each in todo.dependencies if status.get(each, "completed") not in DONE)
        for todo in todos
        if todo.status not in DONE
    }
    return {key: ids for key, ids in waits.items() if ids}


def _identity_problems(todos: Sequence[Todo]) -> Iterator[str]:
    for number, todo in enumerate(todos, start=1):
        if not todo.id.strip():
            yield f"Todo {number} has no id."
        if not todo.content.strip():
            yield f"Todo {todo.id or number} has no content."
    for key, count in Counter(todo.id for todo in todos).items():
        if count > 1 and key.strip():
            yield f"The id {key} is used {count} times."


def _edge_problems(todos: Sequence[Todo]) -> Iterator[str]:
    known = {todo.id for todo in todos}
    for todo in todos:
        for each in todo.dependencies:
            if each == todo.id:
                yield f"{todo.id} depends on itself."
            elif each not in known:
                yield f"{todo.id} depends on {each}, which does not exist."


def _cycle_problems(todos: Sequence[Todo]) -> Iterator[str]:
    """Each cycle once, named by its path. Iterative: a chain of any length is no danger to the stack."""
    edges = {todo.id: [each for each in todo.dependencies if each != todo.id] for todo in todos}
    finished: set[str] = set()
    for start in edges:
        if start not in finished:
            yield from _walk(start, edges, finished)


def _walk(start: str, edges: Mapping[str, Sequence[str]], finished: set[str]) -> Iterator[str]:
    path, place = [start], {start: 0}
    open_edges = [iter(edges[start])]
    while path:
        for target in open_edges[-1]:
            if target in place:
                cycle = [*path[place[target] :], target]
                yield f"There is a cycle: {' -> '.join(cycle)}."
            elif target in edges and target not in finished:
                place[target] = len(path)
                path.append(target)
                open_edges.append(iter(edges[target]))
                break
        else:
            open_edges.pop()
            done = path.pop()
            del place[done]
            finished.add(done)
