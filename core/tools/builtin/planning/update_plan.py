"""update_plan: change a plan file, in part; what its user edited meanwhile stays."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from core.modes import Access
from core.protocol.documents import TodoStatus
from core.text.counting import count
from core.tools.base import PlanChange, Planner, Tool, ToolOutcome
from core.tools.builtin.planning.todo_write import build_changes, format_todos


class ChangedTodo(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(min_length=1, max_length=80, description="The todo's id; a new one makes a new todo.")]
    content: Annotated[str, Meta(description="What is to be done; may be left out for a known todo.")] = ""
    dependencies: Annotated[tuple[str, ...] | None, Meta(description="Ids of todos that must be completed before.")] = (
        None
    )
    status: Annotated[TodoStatus | None, Meta(description="Left out: it stays.")] = None
    verify: Annotated[str | None, Meta(description="A command that has to pass before it counts as completed.")] = None


class UpdatePlan(Tool[Planner], frozen=True, kw_only=True, rename={"title": "name", "target": "path"}):
    name: ClassVar[str] = "update_plan"
    access: ClassVar[Access] = Access.PLAN
    argument_names: ClassVar = {"title": "name", "body": "plan", "content": "plan", "file": "path"}

    title: Annotated[str | None, Meta(description="A new name; left out: it stays.")] = None
    overview: Annotated[str | None, Meta(description="A new overview; left out: it stays.")] = None
    plan: Annotated[str | None, Meta(description="The new text in Markdown, whole; left out: it stays.")] = None
    todos: Annotated[tuple[ChangedTodo, ...], Meta(description="Todos to add or to change; the others stay.")] = ()
    remove: Annotated[tuple[str, ...], Meta(description="Ids of todos to take out.")] = ()
    target: Annotated[str, Meta(description="The plan's file; left out: the one at hand.")] = ""

    def subject(self) -> str:
        return self.title or self.target or "the plan"

    async def run(self, capability: Planner) -> ToolOutcome:
        change = PlanChange(
            path=self.target,
            name=(self.title or "").strip() or None,
            overview=self.overview,
            body=self.plan,
            todos=build_changes(self.todos),
            remove=self.remove,
        )
        plan, update = await capability.update_plan(change)
        content = "\n".join([f"{plan.path} is changed.", *update.notes, format_todos(plan.todos)])
        return ToolOutcome(content=content, summary=count("todo", len(plan.todos)), detail=plan, failed=update.failed)
