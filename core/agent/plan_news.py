"""What is told of plan files: how they are now, and what of ours did not get into one that was edited outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from core.errors import AgentTuiError
from core.plans.merging import Clash, Merged
from core.plans.store import PlanStore
from core.protocol.documents import Todo
from core.protocol.events import AnyEvent, Notice, PlanUpdated, TodoChanged
from core.protocol.plans import Plan

SHOWN = 2_000  # characters of what was not taken; the conversation has it in full
NAMED = 8


def plan_events(merged: Merged) -> tuple[AnyEvent, ...]:
    """In the order in which they are to be emitted."""
    updated = PlanUpdated(plan=merged.plan)
    return (updated, clash_notice(merged.plan.path, merged.clashes)) if merged.clashes else (updated,)


def clash_notice(path: str, clashes: Sequence[Clash]) -> Notice:
    """The file won; what it won over is said in full, so that it can be put back."""
    told = "; ".join(f"{each.where}: {each.dropped}" for each in clashes[:NAMED])
    more = f" (and {len(clashes) - NAMED} more)" if len(clashes) > NAMED else ""
    return Notice(
        level="warning",
        message=f"{path} was changed outside at the same place; the file was left as it is there.",
        hint=f"Not taken: {told[:SHOWN]}{more}",
    )


class PlanState(Protocol):
    """What is known of the plans of a session."""

    @property
    def plans(self) -> Mapping[str, Plan]: ...

    @property
    def todos(self) -> tuple[Todo, ...]: ...

    @property
    def plan_path(self) -> str: ...


class Planned(Protocol):
    """A session with plans; `told` keeps what was said of the file last."""

    @property
    def plans(self) -> PlanStore: ...

    @property
    def state(self) -> PlanState: ...

    @property
    def emit(self) -> Callable[[AnyEvent], None]: ...

    @property
    def told(self) -> dict[str, str]: ...


def tell_trouble(session: Planned, trouble: AgentTuiError) -> None:
    """That the plan's file can't be read or written, once for each such trouble."""
    if session.told.get("plan_trouble") != trouble.message:
        session.told["plan_trouble"] = trouble.message
        hint = f"{trouble.hint} Until then the todos go on without the file.".strip()
        session.emit(Notice(level="warning", message=trouble.message, hint=hint))


def refresh(session: Planned) -> bool:
    """Take in what became of the active plan's file. Whether there was something; a file that can't be read is told
    once, and the list stays as it is."""
    path = session.state.plan_path
    if not path:
        return False
    known = session.state.plans.get(path)
    try:
        now = session.plans.load(path)
        if now == known:
            session.told.pop("plan_trouble", None)
            return False
        todos = session.state.todos
        is_behind = known is not None and known.todos != todos  # the file could not be written when they changed
        merged = session.plans.edit(path, todos=todos, base=known) if is_behind else Merged(plan=now)
    except AgentTuiError as trouble:
        tell_trouble(session, trouble)
        return False
    for event in plan_events(merged):
        session.emit(event)
    session.emit(TodoChanged(todos=merged.plan.todos, plan=path))
    return True
