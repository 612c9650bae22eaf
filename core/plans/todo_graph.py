"""The todos of a plan: their dependency graph, changes merged into them, and the rules for changes of a status."""

from __future__ import annotations

import re
import secrets
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush

from msgspec import Struct
from msgspec.structs import replace

from core.errors import CommandRejected, ToolInputInvalid
from core.protocol.documents import Todo, TodoStatus
from core.workspace.file_names import PLAN_SUFFIX

DONE = frozenset({"completed", "cancelled"})
MAX_NAMED_PROBLEMS = 20  # problems in one message
MAX_LISTED_TODOS = 200  # todos in one message to a model
MAX_CYCLE_LENGTH = 40  # todos of a cycle that a message names
STARTED = frozenset({"in_progress", "completed"})


class GraphFault(Struct, frozen=True, kw_only=True):
    """One fault of the graph. `todo` is an index into the todos, `dependency` one into its dependencies, -1 = the fault
    is of the todo itself."""

    text: str
    todo: int
    dependency: int = -1


def find_faults(todos: Sequence[Todo]) -> tuple[GraphFault, ...]:
    """Find every fault, one sentence each; empty if there is none."""
    return (*_find_identity_faults(todos), *_find_edge_faults(todos), *_find_cycle_faults(todos))


def list_problems(todos: Sequence[Todo]) -> tuple[str, ...]:
    """List the sentences of `find_faults`."""
    return tuple(fault.text for fault in find_faults(todos))


def check_graph(todos: Sequence[Todo], before: Sequence[Todo] = ()) -> None:
    """Raise `ToolInputInvalid` that lists every problem, except those that `before` already had."""
    known_problems = set(list_problems(before)) if before else set()
    problems = [problem for problem in list_problems(todos) if problem not in known_problems]
    if problems:
        suffix = f" And {len(problems) - MAX_NAMED_PROBLEMS} more." if problems[MAX_NAMED_PROBLEMS:] else ""
        hint = "Nothing was changed. Give all todos unique ids, and let dependencies name only ids of earlier work."
        summary = " ".join(problems[:MAX_NAMED_PROBLEMS]) + suffix
        raise ToolInputInvalid(f"The todos are inconsistent: {summary}", hint=hint)


def find_in_progress(todos: Sequence[Todo]) -> Todo | None:
    """Find the first todo that is in progress; None = there is none."""
    return next((todo for todo in todos if todo.status == "in_progress"), None)


def find_ready(todos: Sequence[Todo]) -> tuple[Todo, ...]:
    """Find the pending todos that wait for no other, in their order."""
    waiting = find_blockers(todos)
    return tuple(todo for todo in todos if todo.status == "pending" and todo.id not in waiting)


def find_blockers(todos: Sequence[Todo]) -> dict[str, tuple[str, ...]]:
    """Return the ids that every unfinished todo waits for; only todos that wait have an entry. Unknown ids don't
    block."""
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
    """Find the unfinished todos that depend on `key`, directly or through others, in their order."""
    waiting = _group_by_dependency(todos)
    visited_ids, reach = set[str](), [key]
    while reach:
        fresh = waiting[reach.pop()] - visited_ids
        visited_ids |= fresh
        reach += fresh
    return tuple(todo for todo in todos if todo.id in visited_ids - {key} and todo.status not in DONE)


def sort_topologically(todos: Sequence[Todo]) -> tuple[Todo, ...]:
    """Sort every todo behind its dependencies, else in their order; those of a cycle come last."""
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
    """Return the ids of the dependants by id."""
    waiting: defaultdict[str, set[str]] = defaultdict(set)
    for todo in todos:
        for dependency in todo.dependencies:
            waiting[dependency].add(todo.id)
    return waiting


def select_current(todos: Sequence[Todo], limit: int = MAX_LISTED_TODOS) -> tuple[Todo, ...]:
    """Select at most `limit` todos to show to a model: those in progress and the next ones, in the list's order."""
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
        if occurrences[todo.id] == 2 and todo.id.strip():  # reported once
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
    """Yield every cycle once, with its path. The search is iterative: a long chain can't exhaust the stack."""
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
    """Format the path of a cycle, without its middle if it is long."""
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


class TodoChange(Struct, frozen=True, kw_only=True):
    """A change of a todo from a model; None leaves a field of a known todo as it is."""

    id: str
    content: str | None = None
    status: TodoStatus | None = None
    dependencies: tuple[str, ...] | None = None
    verify: str | None = None


def make_slug(name: str) -> str:
    """Make ASCII words joined by "-", at most 40 characters; "plan" if nothing is left."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:40].strip("-") or "plan"


def make_plan_path(name: str, directory: str) -> str:
    """Make a new path, `<directory>/<slug>_<8 hex>.plan.md`."""
    return f"{directory}/{make_slug(name)}_{secrets.token_hex(4)}{PLAN_SUFFIX}"


def apply_todo_changes(existing: Sequence[Todo], updates: Sequence[TodoChange], *, merge: bool) -> tuple[Todo, ...]:
    """Apply changes to a list of todos; without `merge`, todos without a change are removed.

    Raises `ToolInputInvalid` for a new todo without content or a bad graph.
    """
    todos_by_id = {todo.id: todo for todo in existing}
    duplicates = sorted(key for key, count in Counter(update.id for update in updates).items() if count > 1)
    if duplicates:
        raise ToolInputInvalid(f"The id {duplicates[0]} is given more than once.", hint="Send each todo only once.")
    updated_todos = {update.id: _apply_change(todos_by_id.get(update.id), update) for update in updates}
    after = tuple(({**todos_by_id, **updated_todos} if merge else updated_todos).values())
    check_graph(after)
    return after


def _apply_change(todo: Todo | None, update: TodoChange) -> Todo:
    names = ("content", "status", "dependencies", "verify")
    fields = {name: value for name in names if (value := getattr(update, name)) is not None}
    if todo is not None:
        return replace(todo, **fields)
    if not (update.content or "").strip():
        raise ToolInputInvalid(
            f"There is no todo {update.id} yet, and the new one has no content.",
            hint="Give its content, or use the id of a listed todo.",
        )
    return Todo(id=update.id, **fields)


class CancelledTodo(Struct, frozen=True, kw_only=True):
    """A newly cancelled todo, and the unfinished todos that wait for it, directly or through others."""

    todo: Todo
    waiting: tuple[Todo, ...]


def check_steps(before: Sequence[Todo], after: Sequence[Todo]) -> None:
    """Raise `ToolInputInvalid` for a change that a subagent must not make; violations in `before` are tolerated."""
    problems = list_step_problems(before, after)
    if problems:
        raise ToolInputInvalid(" ".join(problems), hint="Nothing was changed.")


def list_step_problems(before: Sequence[Todo], after: Sequence[Todo]) -> tuple[str, ...]:
    """List the changes that a subagent must not make, one sentence each."""
    old_statuses = {todo.id: todo.status for todo in before}
    open_ids = {todo.id for todo in after if todo.status not in DONE}
    problems = []
    for todo in after:
        blockers = [dependency for dependency in todo.dependencies if dependency in open_ids]
        if blockers and todo.status in STARTED and old_statuses.get(todo.id) not in STARTED:
            state = todo.status.replace("_", " ")
            problems.append(f"{todo.id} can't be {state} yet: it depends on {', '.join(blockers)}.")
    working = [todo.id for todo in after if todo.status == "in_progress"]
    if len(working) > 1 and any(old_statuses.get(key) != "in_progress" for key in working):
        problems.append(f"Only one todo can be in progress, not {len(working)}: {', '.join(working)}.")
    return tuple(problems)


def check_not_blocked(todos: Sequence[Todo], key: str, status: TodoStatus, *, anyway: bool = False) -> None:
    """Raise `CommandRejected` for a todo that the user starts or completes while it waits for others. The user may
    complete it `anyway`, as its dependencies may have turned out to be unnecessary."""
    blockers = find_blockers(todos).get(key, ())
    old_status = next((todo.status for todo in todos if todo.id == key), status)
    if not blockers or status not in STARTED or status == old_status or (anyway and status == "completed"):
        return
    first = "them" if len(blockers) > 1 else "it"
    raise CommandRejected(
        f"{key} can't be {status.replace('_', ' ')} yet: it depends on {', '.join(blockers)}.",
        hint=f"Complete or cancel {first} first, or change the dependencies of {key}.",
        code="todo_blocked",
    )


def find_newly_completed(before: Sequence[Todo], after: Sequence[Todo]) -> tuple[Todo, ...]:
    """Find the todos that are completed in `after` and were not in `before`."""
    old_statuses = {todo.id: todo.status for todo in before}
    return tuple(todo for todo in after if todo.status == "completed" and old_statuses.get(todo.id) != "completed")


def find_cancelled(before: Sequence[Todo], after: Sequence[Todo]) -> tuple[CancelledTodo, ...]:
    """Find the newly cancelled todos that others wait for."""
    old_statuses = {todo.id: todo.status for todo in before}
    candidates = [
        todo for todo in after if todo.status == "cancelled" and old_statuses.get(todo.id, "pending") not in DONE
    ]
    cancelled_todos = [CancelledTodo(todo=todo, waiting=find_dependants(after, todo.id)) for todo in candidates]
    return tuple(entry for entry in cancelled_todos if entry.waiting)
