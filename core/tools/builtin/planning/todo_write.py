"""todo_write: the session's task list, replaced or merged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from core.modes import Access
from core.plans.todo_graph import DONE, TodoChange, apply_todo_changes, find_blockers, find_ready, select_current
from core.protocol.documents import Todo, TodoStatus, TodoStatusUpdate
from core.tools.base import TodoBoard, Tool, ToolOutcome

MOST_READY = 50  # ids that are named
_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]", "cancelled": "[-]"}


class WrittenTodo(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(min_length=1, max_length=80, description="The todo's id; a new one makes a new todo.")]
    content: Annotated[str, Meta(description="What is to be done; may be left out for a known todo.")] = ""
    status: Annotated[
        TodoStatus | None, Meta(description="Left out: a known todo keeps its status, a new one is pending.")
    ] = None
    dependencies: Annotated[tuple[str, ...] | None, Meta(description="Ids of todos that must be completed before.")] = (
        None
    )


class TodoWrite(Tool[TodoBoard], frozen=True, kw_only=True):
    name: ClassVar[str] = "todo_write"
    access: ClassVar[Access] = Access.TODO
    ignored_arguments: ClassVar = frozenset(("activeForm", "active_form", "priority", "explanation"))

    todos: Annotated[tuple[WrittenTodo, ...], Meta(description="The todos to set.")]
    merge: Annotated[
        bool, Meta(description="true: change these todos and keep the others. false: these are the whole list.")
    ] = True

    @classmethod
    def adapt_arguments(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        todos = arguments.get("todos")
        if not isinstance(todos, list) or not todos:
            return arguments
        if not all(isinstance(todo, dict) and "id" not in todo for todo in todos):
            return arguments
        numbered_todos = [{"id": f"step-{number}", **todo} for number, todo in enumerate(todos, start=1)]
        return {"merge": False} | arguments | {"todos": numbered_todos}  # who gives no ids, gives the whole list

    def subject(self) -> str:
        count = len(self.todos)
        return f"{count} todo{'' if count == 1 else 's'}{'' if self.merge else ' (new list)'}"

    async def run(self, capability: TodoBoard) -> ToolOutcome:
        before = {todo.id: todo for todo in capability.todos()}
        # A plan is not thinned out by a list that leaves some of it out: that is what cancelling is for.
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


def _name_known(changes: Sequence[TodoChange], before: Mapping[str, Todo]) -> tuple[TodoChange, ...]:
    """Return the changes, those that say a known todo in its words under another id with the id that it has."""
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
    """Build changes from todos as a model wrote them; one without content keeps the one that it has."""
    return tuple(TodoChange(**{**asdict(todo), "content": getattr(todo, "content", "") or None}) for todo in todos)


def format_todos(todos: Sequence[Todo]) -> str:
    """The list as a model is told of it."""
    if not todos:
        return "The list is empty now."
    blockers, visible_todos = find_blockers(todos), select_current(todos)
    rows = [
        f"{_MARKS[todo.status]} {todo.id}: {todo.content}"
        + (f" (waits for {', '.join(blockers[todo.id])})" if todo.id in blockers else "")
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
