"""What a model writes of statuses into the plan's file itself, with its edit tool or a command.

That lands in the shadow like any edit, and nobody would see it in the live list. So it is read back, one status after
the other, by the rules that `todo_write` has: the graph, one at a time, and the command that proves a todo. What is
left of the change in the shadow is what else was written, and that waits for a review.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from core.agent.session import SessionContext
from core.errors import AgentTuiError
from core.plans.frontmatter import changed, parse
from core.plans.graph import in_order
from core.protocol.documents import Todo, TodoStatus
from core.protocol.plans import Plan
from core.protocol.review import Change, FileState

# What is over makes room for what begins.
FIRST: Final = {"completed": 0, "cancelled": 1, "pending": 2, "in_progress": 3}
Settle = Callable[[str, TodoStatus], Awaitable[Sequence[str]]]


class ReadBack(Struct, frozen=True, kw_only=True):
    """`written`: the ids whose status the model wrote; `notes`: what there is to tell it."""

    written: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


async def read_back(session: SessionContext, settle: Settle) -> ReadBack:
    """Take statuses in that were written into the active plan's file in the shadow since this was asked last.

    `settle` sets one of them and says what there is to say; it raises `AgentTuiError` for what must not be.
    """
    path = session.state.plan_path
    change = session.state.changes.get(path) if path else None
    if change is None or change.pending.kind != "file":
        session.told.pop("plan_written", None)
        return ReadBack()
    if session.told.get("plan_written") == change.pending.blob:
        return ReadBack()
    session.told["plan_written"] = change.pending.blob
    try:
        wanted = _wanted(_plan_of(session, path, change.base), _plan_of(session, path, change.pending))
    except AgentTuiError as trouble:
        return ReadBack(notes=(f"Your change of the plan file can't be read, so none of it counts: {trouble.message}",))
    notes: list[str] = []
    for key, status in wanted:
        try:
            notes += await settle(key, status)
        except AgentTuiError as refused:
            notes.append(f"{key} is not {status}: {refused.message}")
    if wanted:
        _settle_file(session, path, change)
    return ReadBack(written=frozenset(key for key, _ in wanted), notes=tuple(notes))


def _plan_of(session: SessionContext, path: str, state: FileState) -> Plan | None:
    if state.kind != "file":
        return None
    text = session.shadow.blobs.get(state.blob).decode("utf-8", errors="replace")
    return parse(text, path)[0]


def _wanted(base: Plan | None, written: Plan | None) -> list[tuple[str, TodoStatus]]:
    """The statuses that differ, in the order in which they can come true."""
    if base is None or written is None:
        return []
    was = {todo.id: todo.status for todo in base.todos}
    place = {todo.id: number for number, todo in enumerate(in_order(base.todos))}
    found = [(todo.id, todo.status) for todo in written.todos if was.get(todo.id, todo.status) != todo.status]
    return sorted(found, key=lambda each: (FIRST[each[1]], place[each[0]]))


def _settle_file(session: SessionContext, path: str, change: Change) -> None:
    """Let the file in the shadow say what came true: where nothing else was written, nothing is pending any more."""
    try:
        now = {todo.id: todo.status for todo in session.plans.load(path).todos}
        text = session.shadow.blobs.get(change.pending.blob).decode("utf-8", errors="replace")
        written, page = parse(text, path)
        todos = tuple(_with_status(todo, now) for todo in written.todos)
        text = changed(page, replace(written, todos=todos))
        session.shadow.edit(path, text.encode(), origin=change.origin)
        session.shadow.check_disk(path)
    except AgentTuiError:
        return  # a file that broke meanwhile is told of elsewhere; what is pending stays for the review
    left = session.state.changes.get(path)
    session.told["plan_written"] = left.pending.blob if left is not None else ""


def _with_status(todo: Todo, now: dict[str, TodoStatus]) -> Todo:
    return replace(todo, status=now.get(todo.id, todo.status))
