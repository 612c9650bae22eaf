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
    known = set(list_problems(before)) if before else set()
    found = [each for each in list_problems(todos) if each not in known]
    if found:
        more = f" And {len(found) - MAX_NAMED_PROBLEMS} more." if found[MAX_NAMED_PROBLEMS:] else ""
        hint = "Nothing was changed. Give every todo its own id, and let dependencies name ids of earlier work only."
        shown = " ".join(found[:MAX_NAMED_PROBLEMS]) + more
        raise ToolInputInvalid(f"The todos are inconsistent: {shown}", hint=hint)


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
    waits = {
        todo.id: tuple(each for each in todo.dependencies if status.get(each, "completed") not in DONE)
        for todo in todos
        if todo.status not in DONE
    }
    return {key: ids for key, ids in waits.items() if ids}


def find_dependants(todos: Sequence[Todo], key: str) -> tuple[Todo, ...]:
    """Find the todos that are not done and depend on `key`, directly or through others, in their order."""
    waiting = _group_by_dependency(todos)
    reached, reach = set[str](), [key]
    while reach:
        fresh = waiting[reach.pop()] - reached
        reached |= fresh
        reach += fresh
    return tuple(todo for todo in todos if todo.id in reached - {key} and todo.status not in DONE)


def sort_topologically(todos: Sequence[Todo]) -> tuple[Todo, ...]:
    """Sort so that each todo comes after what it depends on, else in their order; those of a cycle come last."""
    known = {todo.id for todo in todos}
    open_edges = {todo.id: len({each for each in todo.dependencies if each in known}) for todo in todos}
    place = {todo.id: number for number, todo in enumerate(todos)}
    waiting = _group_by_dependency(todos)
    free = [place[key] for key, count in open_edges.items() if not count]
    heapify(free)
    found: list[Todo] = []
    while free:
        todo = todos[heappop(free)]
        found.append(todo)
        for each in waiting[todo.id]:
            open_edges[each] -= 1
            if not open_edges[each]:
                heappush(free, place[each])
    placed = {todo.id for todo in found}
    return (*found, *(todo for todo in todos if todo.id not in placed))


def _group_by_dependency(todos: Sequence[Todo]) -> defaultdict[str, set[str]]:
    """The ids of the todos that depend on each."""
    waiting: defaultdict[str, set[str]] = defaultdict(set)
    for todo in todos:
        for each in todo.dependencies:
            waiting[each].add(todo.id)
    return waiting


def select_current(todos: Sequence[Todo], most: int = MAX_LISTED_TODOS) -> tuple[Todo, ...]:
    """Select the todos to show a model, at most `most`: those in progress and next. In the list's order."""
    if len(todos) <= most:
        return tuple(todos)
    left = [todo for todo in sort_topologically(todos) if todo.status not in DONE]
    left.sort(key=lambda todo: todo.status != "in_progress")
    chosen = {todo.id for todo in left[:most]}
    return tuple(todo for todo in todos if todo.id in chosen)


def _find_identity_faults(todos: Sequence[Todo]) -> Iterator[GraphFault]:
    for number, todo in enumerate(todos):
        if not todo.id.strip():
            yield GraphFault(text=f"Todo {number + 1} has no id.", todo=number)
        if not todo.content.strip():
            yield GraphFault(text=f"Todo {todo.id or number + 1} has no content.", todo=number)
    seen = Counter[str]()
    counts = Counter(todo.id for todo in todos)
    for number, todo in enumerate(todos):
        seen[todo.id] += 1
        if seen[todo.id] == 2 and todo.id.strip():  # said once
            yield GraphFault(text=f"The id {todo.id} is used {counts[todo.id]} times.", todo=number)


def _find_edge_faults(todos: Sequence[Todo]) -> Iterator[GraphFault]:
    known = {todo.id for todo in todos}
    for number, todo in enumerate(todos):
        for edge, each in enumerate(todo.dependencies):
            if each == todo.id:
                yield GraphFault(text=f"{todo.id} depends on itself.", todo=number, dependency=edge)
            elif each not in known:
                missing = f"{todo.id} depends on {each}, which does not exist."
                yield GraphFault(text=missing, todo=number, dependency=edge)


def _find_cycle_faults(todos: Sequence[Todo]) -> Iterator[GraphFault]:
    """Yield each cycle once, named by its path. Iterative: a chain of any length is no danger to the stack."""
    edges = {todo.id: [each for each in todo.dependencies if each != todo.id] for todo in todos}
    place = {todo.id: number for number, todo in enumerate(todos)}
    finished: set[str] = set()
    for start in edges:
        if start not in finished:
            for cycle in _walk_cycles(start, edges, finished):
                holder = todos[place[cycle[-2]]]
                yield GraphFault(
                    text=f"There is a cycle: {_format_path(cycle)}.",
                    todo=place[holder.id],
                    dependency=holder.dependencies.index(cycle[-1]),
                )


def _format_path(cycle: Sequence[str]) -> str:
    """Format the way around, with its middle left out if it is long."""
    half = MAX_CYCLE_LENGTH // 2
    if len(cycle) > MAX_CYCLE_LENGTH:
        cycle = [*cycle[:half], f"({len(cycle) - 2 * half} more)", *cycle[-half:]]
    return " -> ".join(cycle)


def _walk_cycles(start: str, edges: Mapping[str, Sequence[str]], finished: set[str]) -> Iterator[list[str]]:
    path, place = [start], {start: 0}
    open_edges = [iter(edges[start])]
    while path:
        for target in open_edges[-1]:
            if target in place:
                yield [*path[place[target] :], target]
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
