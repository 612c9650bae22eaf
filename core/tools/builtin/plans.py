"""The tools for plans and their todos: create a plan, change it, and set the list of todos."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from core.errors import ToolInputInvalid
from core.modes import Access
from core.patterns import compile_lazily
from core.plans.todo_graph import (
    DONE,
    TodoChange,
    apply_todo_changes,
    check_graph,
    find_blockers,
    find_ready,
    select_current,
)
from core.protocol.documents import Plan, Todo, TodoStatus, TodoStatusUpdate
from core.records import parse_json
from core.text.counting import count
from core.tools.base import PlanChange, Planner, TodoBoard, Tool, ToolOutcome

MOST_READY = 50  # The limit for listed ids.
# The parts of a todo in other agents' lists, in the order in which they are joined.
_TEXTS = ("content", "title", "subject", "description", "notes")
_STATUSES = {
    **dict.fromkeys(("todo", "open", "not_started", "new", "blocked"), "pending"),
    **dict.fromkeys(("inprogress", "active", "doing", "started"), "in_progress"),
    **dict.fromkeys(("done", "complete", "closed", "finished"), "completed"),
    **dict.fromkeys(("canceled", "deleted", "removed"), "cancelled"),
}
_CHECKED = compile_lazily(r"\s*(?:[-*+]|\d+[.)])?\s*\[(?P<mark>[ xX~>/-])\]\s*(?P<text>.*\S)\s*")
_CHECKS = {
    " ": "pending",
    "x": "completed",
    "~": "in_progress",
    ">": "in_progress",
    "/": "in_progress",
    "-": "in_progress",
}
_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]", "cancelled": "[-]"}


class PlannedTodo(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(min_length=1, max_length=80, description="Short and descriptive, like add-login-route.")]
    content: Annotated[str, Meta(min_length=1, description="What to do, and how to check it.")]
    dependencies: Annotated[tuple[str, ...], Meta(description="Ids of todos to complete first.")] = ()
    verify: Annotated[str, Meta(description="A command that must pass before it is completed, if any.")] = ""


class CreatePlan(Tool[Planner], frozen=True, kw_only=True, rename={"title": "name"}):
    name: ClassVar[str] = "create_plan"
    access: ClassVar[Access] = Access.PLAN
    argument_names: ClassVar = {"title": "name", "body": "plan", "content": "plan"}
    ignored_arguments: ClassVar = frozenset(("isProject", "is_project", "phases", "status"))

    title: Annotated[str, Meta(min_length=1, max_length=200, description="Three or four words.")]
    overview: Annotated[str, Meta(description="One or two sentences: what will be different.")]
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
            f"Plan written to {stored_plan.path} with {count('todo', len(stored_plan.todos))}; ready "
            f"to start: {first}. The user sees it now and decides when to build it. Do not start the "
            "work in this turn."
        )
        return ToolOutcome(content=content, summary=count("todo", len(stored_plan.todos)), detail=stored_plan)


class WrittenTodo(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(min_length=1, max_length=80, description="The todo's id; a new id adds a todo.")]
    content: Annotated[str, Meta(description="What to do; optional for an existing todo.")] = ""
    status: Annotated[
        TodoStatus | None, Meta(description="If left out, an existing todo keeps its status, a new one is pending.")
    ] = None
    dependencies: Annotated[tuple[str, ...] | None, Meta(description="Ids of todos to complete first.")] = None


class TodoWrite(Tool[TodoBoard], frozen=True, kw_only=True):
    name: ClassVar[str] = "todo_write"
    access: ClassVar[Access] = Access.TODO
    argument_names: ClassVar = dict.fromkeys(("task", "text", "step", "name"), "content")
    ignored_arguments: ClassVar = frozenset(
        ("activeForm", "active_form", "priority", "explanation", "parent_task_id", "after_task_id", "parentId")
    )

    todos: Annotated[tuple[WrittenTodo, ...], Meta(description="The todos to set.")]
    merge: Annotated[
        bool, Meta(description="true: change these todos and keep the others. false: replace the list.")
    ] = True

    @classmethod
    def adapt_arguments(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        todos = _parse_checklist(arguments.get("todos"))
        if not isinstance(todos, list) or not todos:
            return arguments
        todos = [_adapt_todo(todo) if isinstance(todo, dict) else todo for todo in todos]
        arguments = arguments | {"todos": todos}
        if not all(isinstance(todo, dict) and "id" not in todo for todo in todos):
            return arguments
        numbered_todos = [{"id": f"step-{number}", **todo} for number, todo in enumerate(todos, start=1)]
        return {"merge": False} | arguments | {"todos": numbered_todos}  # without ids it is the whole list

    def subject(self) -> str:
        return f"{count('todo', len(self.todos))}{'' if self.merge else ' (new list)'}"

    async def run(self, capability: TodoBoard) -> ToolOutcome:
        before = {todo.id: todo for todo in capability.todos()}
        # A list that omits todos of a plan does not remove them; they have to be cancelled.
        is_merging = self.merge or bool(capability.plan)
        changes = _name_known(build_changes(self.todos), before)
        new_todos = apply_todo_changes(tuple(before.values()), changes, merge=is_merging)
        update = await capability.set_todos(new_todos)
        after = update.todos
        marks = tuple(TodoStatusUpdate(id=todo.id, status=todo.status) for todo in after if before.get(todo.id) != todo)
        done_count = sum(todo.status in DONE for todo in after)
        content = "\n".join([*update.notes, format_todos(after)])
        summary = f"{done_count}/{len(after)} done"
        return ToolOutcome(content=content, summary=summary, detail=marks, failed=update.failed)


def _parse_checklist(todos: Any) -> Any:
    """Return todos that came as JSON text or as a Markdown list (`- [x] …`); others unchanged."""
    if not isinstance(todos, str):
        return todos
    with suppress(ValueError, RecursionError):
        return parse_json(todos)
    entries = [entry for line in todos.splitlines() if (entry := _CHECKED.fullmatch(line))]
    if not entries or len(entries) < sum(bool(line.strip()) for line in todos.splitlines()):
        return todos
    return [{"content": entry["text"], "status": _CHECKS[entry["mark"].lower()]} for entry in entries]


def _adapt_todo(todo: dict[str, Any]) -> dict[str, Any]:
    """Return a todo of another agent's list: its parts of text become one, and its status one of ours."""
    texts = [todo[name].strip() for name in _TEXTS if isinstance(todo.get(name), str) and todo[name].strip()]
    adapted_todo = {name: value for name, value in todo.items() if name not in _TEXTS}
    if texts:
        adapted_todo["content"] = ": ".join(dict.fromkeys(texts))
    status = todo.get("status")
    if isinstance(status, str):
        word = status.strip().lower().replace("-", "_").replace(" ", "_")
        adapted_todo["status"] = _STATUSES.get(word, word)
    if isinstance(todo.get("id"), int):
        adapted_todo["id"] = str(todo["id"])
    return adapted_todo


def _name_known(changes: Sequence[TodoChange], before: Mapping[str, Todo]) -> tuple[TodoChange, ...]:
    """Return the changes; a known todo that comes under another id gets its own id back, recognised by its content."""
    ids_by_content = {todo.content: todo.id for todo in before.values()}
    change_ids = {change.id for change in changes}
    todo_ids = [
        ids_by_content.get(change.content or "", change.id) if change.id not in before else change.id
        for change in changes
    ]
    return tuple(
        replace(change, id=name) if name not in change_ids else change
        for change, name in zip(changes, todo_ids, strict=True)
    )


def build_changes(todos: Sequence[Struct]) -> tuple[TodoChange, ...]:
    """Build changes from a model's todos; one without content leaves the content unchanged."""
    return tuple(TodoChange(**{**asdict(todo), "content": getattr(todo, "content", "") or None}) for todo in todos)


def format_todos(todos: Sequence[Todo]) -> str:
    """Return the list for the model."""
    if not todos:
        return "The list is empty now."
    blockers, visible_todos = find_blockers(todos), select_current(todos)
    rows = [
        f"{_MARKS[todo.status]} {todo.id}: {todo.content}"
        + (f" (depends on {', '.join(blockers[todo.id])})" if todo.id in blockers else "")
        for todo in visible_todos
    ]
    if len(visible_todos) < len(todos):
        done_count = sum(todo.status in DONE for todo in todos)
        rows.append(f"({len(todos) - len(visible_todos):,} of {len(todos):,} are left out, {done_count:,} are done)")
    free = [todo.id for todo in find_ready(todos)]
    if free:
        overflow = f" and {len(free) - MOST_READY:,} more" if len(free) > MOST_READY else ""
        rows.append(f"Ready to start: {', '.join(free[:MOST_READY])}{overflow}.")
    return "\n".join(rows)


class ChangedTodo(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(min_length=1, max_length=80, description="The todo's id; a new id adds a todo.")]
    content: Annotated[str, Meta(description="What to do; optional for an existing todo.")] = ""
    dependencies: Annotated[tuple[str, ...] | None, Meta(description="Ids of todos to complete first.")] = None
    status: Annotated[TodoStatus | None, Meta(description="Unchanged if left out.")] = None
    verify: Annotated[str | None, Meta(description="A command that must pass before it is completed.")] = None


class UpdatePlan(Tool[Planner], frozen=True, kw_only=True, rename={"title": "name", "target": "path"}):
    name: ClassVar[str] = "update_plan"
    access: ClassVar[Access] = Access.PLAN
    argument_names: ClassVar = {"title": "name", "body": "plan", "content": "plan", "file": "path"}

    title: Annotated[str | None, Meta(description="A new name; unchanged if left out.")] = None
    overview: Annotated[str | None, Meta(description="A new overview; unchanged if left out.")] = None
    plan: Annotated[str | None, Meta(description="The full new text in Markdown; unchanged if left out.")] = None
    todos: Annotated[tuple[ChangedTodo, ...], Meta(description="Todos to add or change; the others stay.")] = ()
    remove: Annotated[tuple[str, ...], Meta(description="Ids of todos to remove.")] = ()
    target: Annotated[str, Meta(description="The plan's file; the current plan if left out.")] = ""

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
