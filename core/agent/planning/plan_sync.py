"""Plan files and the session: taking in how a file is now, and reporting what did not get into it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from core.errors import AgentTuiError
from core.plans.plan_merge import MergedPlan, PlanConflict
from core.plans.plan_store import PlanStore
from core.protocol.documents import Todo
from core.protocol.events import AnyEvent, Notice, PlanUpdated, TodoChanged
from core.protocol.plans import Plan

MAX_SHOWN = 2_000  # characters of what was not taken; the conversation has it in full
MAX_NAMED = 8


def build_plan_events(merged: MergedPlan) -> tuple[AnyEvent, ...]:
    """Return the events of a merge, in the order in which they are to be emitted."""
    updated = PlanUpdated(plan=merged.plan)
    return (updated, build_clash_notice(merged.plan.path, merged.conflicts)) if merged.conflicts else (updated,)


def build_clash_notice(path: str, clashes: Sequence[PlanConflict]) -> Notice:
    """Build the notice of a clash: the file won, and what it won over is said in full, so that it can be put back."""
    told = "; ".join(f"{each.where}: {each.dropped}" for each in clashes[:MAX_NAMED])
    more = f" (and {len(clashes) - MAX_NAMED} more)" if len(clashes) > MAX_NAMED else ""
    return Notice(
        level="warning",
        message=f"{path} was changed outside at the same place; the file was left as it is there.",
        hint=f"Not taken: {told[:MAX_SHOWN]}{more}",
    )


class PlanState(Protocol):
    """The plans and todos of a session's state."""

    @property
    def plans(self) -> Mapping[str, Plan]: ...

    @property
    def todos(self) -> tuple[Todo, ...]: ...

    @property
    def todos_plan_path(self) -> str: ...


class PlanContext(Protocol):
    """A session with plans; `told` holds what was last said of the file."""

    @property
    def plans(self) -> PlanStore: ...

    @property
    def state(self) -> PlanState: ...

    @property
    def emit(self) -> Callable[[AnyEvent], None]: ...

    @property
    def announced(self) -> dict[str, str]: ...


def report_plan_trouble(session: PlanContext, trouble: AgentTuiError) -> None:
    """Notify the user, once for each such trouble, that the plan's file can't be read or written."""
    if session.announced.get("plan_trouble") != trouble.message:
        session.announced["plan_trouble"] = trouble.message
        hint = f"{trouble.hint} Until then the todos go on without the file.".strip()
        session.emit(Notice(level="warning", message=trouble.message, hint=hint))


def refresh_plan(session: PlanContext) -> bool:
    """Take in what became of the active plan's file. True if there was something.

    A file that can't be read is reported once, and the list stays as it is.
    """
    path = session.state.todos_plan_path
    if not path:
        return False
    known = session.state.plans.get(path)
    try:
        now = session.plans.load(path)
        if now == known:
            session.announced.pop("plan_trouble", None)
            return False
        todos = session.state.todos
        is_behind = known is not None and known.todos != todos  # the file could not be written when they changed
        merged = session.plans.edit(path, todos=todos, base=known) if is_behind else MergedPlan(plan=now)
    except AgentTuiError as trouble:
        report_plan_trouble(session, trouble)
        return False
    for event in build_plan_events(merged):
        session.emit(event)
    session.emit(TodoChanged(todos=merged.plan.todos, plan=path))
    return True
