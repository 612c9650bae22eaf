"""The dependency graph of todos: what is wrong with it, what is ready, what waits on what. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush

from msgspec import Struct

from core.errors import ToolInputInvalid
from core.protocol.documents import Todo

DONE = frozenset({"completed", "cancelled"})
MAX_NAMED_PROBLEMS = 20  # problems in one message
MAX_LISTED_TODOS = 200  # todos that a model is told of at once
MAX_CYCLE_LENGTH = 40  # todos of a cycle that are named


class GraphFault(Struct, frozen=True, kw_only=True):
    """One thing that is wrong with the graph. `todo` is an index into the todos, `dependency` one into its
    dependencies, -1 = it is about the todo itself."""

    text: str
    todo: int
    dependency: int = -1


def find_faults(todos: Sequence[Todo]) -> tuple[GraphFault, ...]:
    """Find every fault, one sentence each; empty when all is well."""
    return (*_find_identity_faults(todos), *_find_edge_faults(todos), *_find_cycle_faults(todos))


def list_problems(todos: Sequence[Todo]) -> tuple[str, ...]:
    """List the sentences of `find_faults`."""
    return tuple(fault.text for fault in find_faults(todos))


def check_graph(todos: Sequence[Todo], before: Sequence[Todo] = ()) -> None:
    """Raise `ToolInputInvalid` that names every problem, but for those that `before` had already."""
    known_problems = set(list_problems(before)) if before else set()
    problems = [problem for problem in list_problems(todos) if problem not in known_problems]
    if problems:
        suffix = f" And {len(problems) - MAX_NAMED_PROBLEMS} more." if problems[MAX_NAMED_PROBLEMS:] else ""
        hint = "Nothing was changed. Give every todo its own id, and let dependencies name ids of earlier work only."
        summary = " ".join(problems[:MAX_NAMED_PROBLEMS]) + suffix
        raise ToolInputInvalid(f"The todos are inconsistent: {summary}", hint=hint)


def find_in_progress(todos: Sequence[Todo]) -> Todo | None:
    """Find the todo that is worked at, the first one if there are several; None: none is."""
    return next((todo for todo in todos if todo.status == "in_progress"), None)


def find_ready(todos: Sequence[Todo]) -> tuple[Todo, ...]:
    """Find the pending todos that nothing keeps from being started, in their order."""
    waiting = find_blockers(todos)
    return tuple(todo for todo in todos if todo.status == "pending" and todo.id not in waiting)


def find_blockers(todos: Sequence[Todo]) -> dict[str, tuple[str, ...]]:
    """For each todo that is not done and has to wait: the ids that it waits for. Unknown ids don't block."""
    status = {todo.id: todo.status for todo in todos}
    blockers = {
        todo.id: tuple(
            dependency for dependency in todo.dependencies if status.get(dependency, "completed") not in DONE
        )
        for todo in todos
        if todo.status not in DONE
    }
    return {key: ids for key, ids in blockers.items() if ids}


def find_dependants(todos: Sequence[Todo], key: str) -> tuple[Todo, ...]:
    """Find the todos that are not done and depend on `key`, directly or through others, in their order."""
    waiting = _group_by_dependency(todos)
    visited_ids, reach = set[str](), [key]
    while reach:
        fresh = waiting[reach.pop()] - visited_ids
        visited_ids |= fresh
        reach += fresh
    return tuple(todo for todo in todos if todo.id in visited_ids - {key} and todo.status not in DONE)


def sort_topologically(todos: Sequence[Todo]) -> tuple[Todo, ...]:
    """Sort so that each todo comes after what it depends on, else in their order; those of a cycle come last."""
    known_ids = {todo.id for todo in todos}
    open_edges = {
        todo.id: len({dependency for dependency in todo.dependencies if dependency in known_ids}) for todo in todos
    }
    positions = {todo.id: number for number, todo in enumerate(todos)}
    waiting = _group_by_dependency(todos)
    free = [positions[key] for key, count in open_edges.items() if not count]
    heapify(free)
    sorted_todos: list[Todo] = []
    while free:
        todo = todos[heappop(free)]
        sorted_todos.append(todo)
        for dependant in waiting[todo.id]:
            open_edges[dependant] -= 1
            if not open_edges[dependant]:
                heappush(free, positions[dependant])
    sorted_ids = {todo.id for todo in sorted_todos}
    return (*sorted_todos, *(todo for todo in todos if todo.id not in sorted_ids))


def _group_by_dependency(todos: Sequence[Todo]) -> defaultdict[str, set[str]]:
    """The ids of the todos that depend on each."""
    waiting: defaultdict[str, set[str]] = defaultdict(set)
    for todo in todos:
        for dependency in todo.dependencies:
            waiting[dependency].add(todo.id)
    return waiting


def select_current(todos: Sequence[Todo], limit: int = MAX_LISTED_TODOS) -> tuple[Todo, ...]:
    """Select the todos to show a model, at most `limit`: those in progress and next. In the list's order."""
    if len(todos) <= limit:
        return tuple(todos)
    open_todos = [todo for todo in sort_topologically(todos) if todo.status not in DONE]
    open_todos.sort(key=lambda todo: todo.status != "in_progress")
    selected_ids = {todo.id for todo in open_todos[:limit]}
    return tuple(todo for todo in todos if todo.id in selected_ids)


def _find_identity_faults(todos: Sequence[Todo]) -> Iterator[GraphFault]:
    for number, todo in enumerate(todos):
        if not todo.id.strip():
            yield GraphFault(text=f"Todo {number + 1} has no id.", todo=number)
        if not todo.content.strip():
            yield GraphFault(text=f"Todo {todo.id or number + 1} has no content.", todo=number)
    occurrences = Counter[str]()
    counts = Counter(todo.id for todo in todos)
    for number, todo in enumerate(todos):
        occurrences[todo.id] += 1
        if occurrences[todo.id] == 2 and todo.id.strip():  # said once
            yield GraphFault(text=f"The id {todo.id} is used {counts[todo.id]} times.", todo=number)


def _find_edge_faults(todos: Sequence[Todo]) -> Iterator[GraphFault]:
    known_ids = {todo.id for todo in todos}
    for number, todo in enumerate(todos):
        for edge, dependency in enumerate(todo.dependencies):
            if dependency == todo.id:
                yield GraphFault(text=f"{todo.id} depends on itself.", todo=number, dependency=edge)
            elif dependency not in known_ids:
                missing = f"{todo.id} depends on {dependency}, which does not exist."
                yield GraphFault(text=missing, todo=number, dependency=edge)


def _find_cycle_faults(todos: Sequence[Todo]) -> Iterator[GraphFault]:
    """Yield each cycle once, named by its path. Iterative: a chain of any length is no danger to the stack."""
    edges = {todo.id: [dependency for dependency in todo.dependencies if dependency != todo.id] for todo in todos}
    positions = {todo.id: number for number, todo in enumerate(todos)}
    finished_ids: set[str] = set()
    for start in edges:
        if start not in finished_ids:
            for cycle in _walk_cycles(start, edges, finished_ids):
                holder = todos[positions[cycle[-2]]]
                yield GraphFault(
                    text=f"There is a cycle: {_format_path(cycle)}.",
                    todo=positions[holder.id],
                    dependency=holder.dependencies.index(cycle[-1]),
                )


def _format_path(cycle: Sequence[str]) -> str:
    """Format the way around, with its middle left out if it is long."""
    half = MAX_CYCLE_LENGTH // 2
    if len(cycle) > MAX_CYCLE_LENGTH:
        cycle = [*cycle[:half], f"({len(cycle) - 2 * half} more)", *cycle[-half:]]
    return " -> ".join(cycle)


def _walk_cycles(start: str, edges: Mapping[str, Sequence[str]], finished_ids: set[str]) -> Iterator[list[str]]:
    path, positions = [start], {start: 0}
    open_edges = [iter(edges[start])]
    while path:
        for target in open_edges[-1]:
            if target in positions:
                yield [*path[positions[target] :], target]
            elif target in edges and target not in finished_ids:
                positions[target] = len(path)
                path.append(target)
                open_edges.append(iter(edges[target]))
                break
        else:
            open_edges.pop()
            todo_id = path.pop()
            del positions[todo_id]
            finished_ids.add(todo_id)
