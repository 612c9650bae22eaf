"""Rules for a subagent's changes of todo statuses: one thing at a time, and nothing before what it depends on."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from core.errors import CommandRejected, ToolInputInvalid
from core.plans.todo_graph import DONE, find_blockers, find_dependants
from core.protocol.documents import Todo, TodoStatus

STARTED = frozenset({"in_progress", "completed"})


class CancelledTodo(Struct, frozen=True, kw_only=True):
    """A todo that is being cancelled, and what is left of those that wait for it, directly or through others."""

    todo: Todo
    waiting: tuple[Todo, ...]


def check_steps(before: Sequence[Todo], after: Sequence[Todo]) -> None:
    """Raise `ToolInputInvalid` for what a subagent must not do; what was so `before` is let be."""
    problems = list_step_problems(before, after)
    if problems:
        raise ToolInputInvalid(" ".join(problems), hint="Nothing was changed.")


def list_step_problems(before: Sequence[Todo], after: Sequence[Todo]) -> tuple[str, ...]:
    """List what a subagent must not do, one sentence each."""
    old_statuses = {todo.id: todo.status for todo in before}
    open_ids = {todo.id for todo in after if todo.status not in DONE}
    problems = []
    for todo in after:
        blockers = [dependency for dependency in todo.dependencies if dependency in open_ids]
        if blockers and todo.status in STARTED and old_statuses.get(todo.id) not in STARTED:
            state = todo.status.replace("_", " ")
            problems.append(f"{todo.id} can't be {state} yet: it waits for {', '.join(blockers)}.")
    working = [todo.id for todo in after if todo.status == "in_progress"]
    if len(working) > 1 and any(old_statuses.get(key) != "in_progress" for key in working):
        problems.append(f"Only one todo can be in progress, not {len(working)}: {', '.join(working)}.")
    return tuple(problems)


def check_not_blocked(todos: Sequence[Todo], key: str, status: TodoStatus, *, anyway: bool = False) -> None:
    """Raise `CommandRejected` for a todo that the user would begin or complete while it waits for others. Completing it
    `anyway` is theirs to say: what it waits for may have turned out not to be needed first."""
    blockers = find_blockers(todos).get(key, ())
    old_status = next((todo.status for todo in todos if todo.id == key), status)
    if not blockers or status not in STARTED or status == old_status or (anyway and status == "completed"):
        return
    first = "them" if len(blockers) > 1 else "it"
    raise CommandRejected(
        f"{key} can't be {status.replace('_', ' ')} yet: it waits for {', '.join(blockers)}.",
        hint=f"Complete or cancel {first} first, or let {key} wait for something else.",
        code="todo_blocked",
    )


def find_newly_completed(before: Sequence[Todo], after: Sequence[Todo]) -> tuple[Todo, ...]:
    """Find the todos that are completed after and were not before."""
    old_statuses = {todo.id: todo.status for todo in before}
    return tuple(todo for todo in after if todo.status == "completed" and old_statuses.get(todo.id) != "completed")


def find_cancelled(before: Sequence[Todo], after: Sequence[Todo]) -> tuple[CancelledTodo, ...]:
    """Find the todos that are cancelled now while others wait for them."""
    old_statuses = {todo.id: todo.status for todo in before}
    candidates = [
        todo for todo in after if todo.status == "cancelled" and old_statuses.get(todo.id, "pending") not in DONE
    ]
    cancelled_todos = [CancelledTodo(todo=todo, waiting=find_dependants(after, todo.id)) for todo in candidates]
    return tuple(cut for cut in cancelled_todos if cut.waiting)
