"""Events of plans and task lists."""

from __future__ import annotations

from core.protocol.documents import Todo
from core.protocol.events.base import Event
from core.protocol.plans import Plan
from core.protocol.review import Comment


class PlanCreated(Event, frozen=True, kw_only=True, tag="plan.created"):
    plan: Plan


class PlanUpdated(Event, frozen=True, kw_only=True, tag="plan.updated"):
    plan: Plan


class PlanCommented(Event, frozen=True, kw_only=True, tag="plan.commented"):
    """The comment of this id on lines of a plan is now this one; without text: there is none."""

    comment: Comment


class TodoVerified(Event, frozen=True, kw_only=True, tag="todo.verified"):
    """The command of a todo was run; it passed if `exit_code` is 0. None: it did not come to an end. `output` is its
    last part."""

    id: str
    command: str
    exit_code: int | None
    output: str = ""
    plan: str = ""
    duration_ms: int = 0


class TodoChanged(Event, frozen=True, kw_only=True, tag="todo.changed"):
    """The session's task list, whole. `plan` is the path of the plan that it belongs to, "" = none."""

    todos: tuple[Todo, ...]
    plan: str = ""
