"""todo_write: the session's task list, replaced or merged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from core.modes import Access
from core.plans.todo_changes import TodoChange, apply_todo_changes
from core.plans.todo_graph import DONE, find_blockers, find_ready, select_current
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
    def adapt_arguments(cls, given: dict[str, Any]) -> dict[str, Any]:
        todos = given.get("todos")
        if not isinstance(todos, list) or not todos:
            return given
        if not all(isinstance(each, dict) and "id" not in each for each in todos):
            return given
        numbered = [{"id": f"step-{number}", **each} for number, each in enumerate(todos, start=1)]
        return {"merge": False} | given | {"todos": numbered}  # who gives no ids, gives the whole list

    def subject(self) -> str:
        count = len(self.todos)
        return f"{count} todo{'' if count == 1 else 's'}{'' if self.merge else ' (new list)'}"

    async def run(self, capability: TodoBoard) -> ToolOutcome:
        before = {todo.id: todo for todo in capability.todos()}
        # A plan is not thinned out by a list that leaves some of it out: that is what cancelling is for.
        keeps = self.merge or bool(capability.plan)
        changes = _name_known(build_changes(self.todos), before)
        wanted = apply_todo_changes(tuple(before.values()), changes, merge=keeps)
        settled = await capability.set_todos(wanted)
        after = settled.todos
        marks = tuple(TodoStatusUpdate(id=todo.id, status=todo.status) for todo in after if before.get(todo.id) != todo)
        done = sum(todo.status in DONE for todo in after)
        content = "\n".join([*settled.notes, format_todos(after)])
        summary = f"{done}/{len(after)} done"
        return ToolOutcome(content=content, summary=summary, detail=marks, failed=settled.failed)


def _name_known(changes: Sequence[TodoChange], before: Mapping[str, Todo]) -> tuple[TodoChange, ...]:
    """Return the changes, those that say a known todo in its words under another id with the id that it has."""
    said = {todo.content: todo.id for todo in before.values()}
    given = {each.id for each in changes}
    own = [said.get(each.content or "", each.id) if each.id not in before else each.id for each in changes]
    return tuple(replace(each, id=name) if name not in given else each for each, name in zip(changes, own, strict=True))


def build_changes(todos: Sequence[Struct]) -> tuple[TodoChange, ...]:
    """Build changes from todos as a model wrote them; one without content keeps the one that it has."""
    return tuple(TodoChange(**{**asdict(each), "content": getattr(each, "content", "") or None}) for each in todos)


def format_todos(todos: Sequence[Todo]) -> str:
    """The list as a model is told of it."""
    if not todos:
        return "The list is empty now."
    waits, shown = find_blockers(todos), select_current(todos)
    rows = [
        f"{_MARKS[todo.status]} {todo.id}: {todo.content}"
        + (f" (waits for {', '.join(waits[todo.id])})" if todo.id in waits else "")
        for todo in shown
    ]
    if len(shown) < len(todos):
        done = sum(todo.status in DONE for todo in todos)
        rows.append(f"({len(todos) - len(shown):,} of {len(todos):,} are left out, {done:,} are done)")
    free = [todo.id for todo in find_ready(todos)]
    if free:
        more = f" and {len(free) - MOST_READY:,} more" if len(free) > MOST_READY else ""
        rows.append(f"Ready to start: {', '.join(free[:MOST_READY])}{more}.")
    return "\n".join(rows)
