"""Statuses that a model writes into the plan's file itself, with its edit tool or a command.

That lands in the shadow like any edit, and nobody would see it in the live list. So it is read back, one status after
the other, by the rules that `todo_write` has: the graph, one at a time, and the command that proves a todo. What is
left of the change in the shadow is what else was written, and that waits for a review.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from core.agent.planning.plan_sync import PlanSync
from core.agent.planning.todo_editor import apply_statuses
from core.errors import AgentTuiError
from core.plans.plan_file import parse_plan_file
from core.plans.plan_writer import rewrite_plan
from core.plans.todo_graph import sort_topologically
from core.protocol.documents import Plan, TodoStatus
from core.protocol.review import Change, FileState
from core.shadow.shadow import Shadow

# What is over makes room for what begins.
STATUS_ORDER: Final = {"completed": 0, "cancelled": 1, "pending": 2, "in_progress": 3}
SetStatus = Callable[[str, TodoStatus], Awaitable[Sequence[str]]]


class StatusReadback(Struct, frozen=True, kw_only=True):
    """Statuses that were read back. `written_ids`: the todos concerned; `notes`: lines for the model."""

    written_ids: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


async def read_back_statuses(
    plans: PlanSync, shadow: Shadow, announcements: dict[str, str], set_status: SetStatus
) -> StatusReadback:
    """Set the statuses written into the plan's file since the last call; `set_status` may raise `AgentTuiError`."""
    path = plans.state.todos_plan_path
    change = plans.state.changes.get(path) if path else None
    if change is None or change.pending.kind != "file":
        announcements.pop("plan_written", None)
        return StatusReadback()
    if announcements.get("plan_written") == change.pending.blob:
        return StatusReadback()
    announcements["plan_written"] = change.pending.blob
    try:
        status_changes = _list_status_changes(
            _parse_plan(shadow, path, change.base), _parse_plan(shadow, path, change.pending)
        )
    except AgentTuiError as trouble:
        return StatusReadback(
            notes=(f"Your change of the plan file can't be read, so none of it counts: {trouble.message}",)
        )
    notes: list[str] = []
    for key, status in status_changes:
        try:
            notes += await set_status(key, status)
        except AgentTuiError as refused:
            notes.append(f"{key} is not {status}: {refused.message}")
    if status_changes:
        _reset_pending_file(plans, shadow, announcements, path, change)
    return StatusReadback(written_ids=frozenset(key for key, _ in status_changes), notes=tuple(notes))


def _parse_plan(shadow: Shadow, path: str, state: FileState) -> Plan | None:
    if state.kind != "file":
        return None
    text = shadow.blobs.get(state.blob).decode("utf-8", errors="replace")
    return parse_plan_file(text, path)[0]


def _list_status_changes(base: Plan | None, written_plan: Plan | None) -> list[tuple[str, TodoStatus]]:
    if base is None or written_plan is None:
        return []
    base_statuses = {todo.id: todo.status for todo in base.todos}
    positions = {todo.id: number for number, todo in enumerate(sort_topologically(base.todos))}
    status_changes = [
        (todo.id, todo.status) for todo in written_plan.todos if base_statuses.get(todo.id, todo.status) != todo.status
    ]
    return sorted(status_changes, key=lambda change: (STATUS_ORDER[change[1]], positions[change[0]]))


def _reset_pending_file(
    plans: PlanSync, shadow: Shadow, announcements: dict[str, str], path: str, change: Change
) -> None:
    """Rewrite the pending file with the statuses that came true; without other changes nothing stays pending."""
    try:
        now = {todo.id: todo.status for todo in plans.store.load(path).todos}
        text = shadow.blobs.get(change.pending.blob).decode("utf-8", errors="replace")
        written_plan, page = parse_plan_file(text, path)
        text = rewrite_plan(page, replace(written_plan, todos=apply_statuses(written_plan.todos, now)))
        shadow.edit(path, text.encode(), origin=change.origin)
        shadow.check_disk(path)
    except AgentTuiError:
        return  # a file that broke meanwhile is told of elsewhere; what is pending stays for the review
    remaining_change = plans.state.changes.get(path)
    announcements["plan_written"] = remaining_change.pending.blob if remaining_change is not None else ""
