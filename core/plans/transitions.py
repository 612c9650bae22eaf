"""What a worker may do to the statuses of todos: one thing at a time, and nothing before what it depends on. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from core.errors import ToolInputInvalid
from core.plans.graph import DONE, dependants
from core.protocol.documents import Todo

STARTED = frozenset({"in_progress", "completed"})


class Cut(Struct, frozen=True, kw_only=True):
    """A todo that is being cancelled, and what is left of those that wait for it, directly or through others."""

    todo: Todo
    waiting: tuple[Todo, ...]


def check_steps(before: Sequence[Todo], after: Sequence[Todo]) -> None:
    """Raise `ToolInputInvalid` for what a worker must not do; what was so `before` is let be."""
    found = problems_of_steps(before, after)
    if found:
        raise ToolInputInvalid(" ".join(found), hint="Nothing was changed.")


def problems_of_steps(before: Sequence[Todo], after: Sequence[Todo]) -> tuple[str, ...]:
    was = {todo.id: todo.status for todo in before}
    open_ids = {todo.id for todo in after if todo.status not in DONE}
    found = []
    for todo in after:
        waits = [each for each in todo.dependencies if each in open_ids]
        if waits and todo.status in STARTED and was.get(todo.id) not in STARTED:
            state = todo.status.replace("_", " ")
            found.append(f"{todo.id} can't be {state} yet: it waits for {', '.join(waits)}.")
    working = [todo.id for todo in after if todo.status == "in_progress"]
    if len(working) > 1 and any(was.get(key) != "in_progress" for key in working):
        found.append(f"Only one todo can be in progress, not {len(working)}: {', '.join(working)}.")
    return tuple(found)


def newly_completed(before: Sequence[Todo], after: Sequence[Todo]) -> tuple[Todo, ...]:
    was = {todo.id: todo.status for todo in before}
    return tuple(todo for todo in after if todo.status == "completed" and was.get(todo.id) != "completed")


def cuts(before: Sequence[Todo], after: Sequence[Todo]) -> tuple[Cut, ...]:
    """The todos that are cancelled now while others wait for them."""
    was = {todo.id: todo.status for todo in before}
    gone = [todo for todo in after if todo.status == "cancelled" and was.get(todo.id, "pending") not in DONE]
    found = [Cut(todo=todo, waiting=dependants(after, todo.id)) for todo in gone]
    return tuple(cut for cut in found if cut.waiting)
