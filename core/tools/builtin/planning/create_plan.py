"""create_plan: a plan file with todos that depend on each other."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta, Struct
from msgspec.structs import asdict

from core.errors import ToolInputInvalid
from core.modes import Access
from core.plans.todo_graph import check_graph, find_ready
from core.protocol.documents import Todo
from core.protocol.plans import Plan
from core.text.counting import count
from core.tools.base import Planner, Tool, ToolOutcome


class PlannedTodo(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(min_length=1, max_length=80, description="Short and telling, such as add-login-route.")]
    content: Annotated[str, Meta(min_length=1, description="What is to be done, and how to see that it is done.")]
    dependencies: Annotated[tuple[str, ...], Meta(description="Ids of todos that must be completed before.")] = ()
    verify: Annotated[str, Meta(description="A command that has to pass before it counts as completed, if any.")] = ""


class CreatePlan(Tool[Planner], frozen=True, kw_only=True, rename={"title": "name"}):
    name: ClassVar[str] = "create_plan"
    access: ClassVar[Access] = Access.PLAN
    argument_names: ClassVar = {"title": "name", "body": "plan", "content": "plan"}
    ignored_arguments: ClassVar = frozenset(("isProject", "is_project", "phases", "status"))

    title: Annotated[str, Meta(min_length=1, max_length=200, description="Three or four words.")]
    overview: Annotated[str, Meta(description="One or two sentences: what will be different afterwards.")]
    plan: Annotated[str, Meta(min_length=1, description="The plan in Markdown, naming the files it touches.")]
    todos: Annotated[tuple[PlannedTodo, ...], Meta(description="The steps, in order.")] = ()

    def subject(self) -> str:
        return self.title

    async def run(self, capability: Planner) -> ToolOutcome:
        if not self.title.strip():
            raise ToolInputInvalid("The plan has no name.", hint="Name it in three or four words.")
        todos = tuple(
            Todo(**{**asdict(planned_todo), "verify": planned_todo.verify.strip()}) for planned_todo in self.todos
        )
        check_graph(todos)
        plan = Plan(path="", name=self.title.strip(), overview=self.overview.strip(), body=self.plan, todos=todos)
        stored_plan = capability.create_plan(plan)
        first = ", ".join(todo.id for todo in find_ready(stored_plan.todos)) or "none"
        content = (
            f"Plan written to {stored_plan.path} with {count('todo', len(stored_plan.todos))}; ready to start: {first}."
            " The user sees it now and decides when to build it. Do not begin the work in this turn."
        )
        return ToolOutcome(content=content, summary=count("todo", len(stored_plan.todos)), detail=stored_plan)
