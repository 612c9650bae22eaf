"""Names of plan files, and updates merged into a list of todos. Pure."""

from __future__ import annotations

import re
import secrets
import unicodedata
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from core.errors import ToolInputInvalid
from core.plans.todo_graph import check_graph
from core.protocol.documents import Todo, TodoStatus
from core.workspace.file_names import PLAN_SUFFIX


class TodoChange(Struct, frozen=True, kw_only=True):
    """A todo as a model sends it: None leaves the field of a known todo as it is."""

    id: str
    content: str | None = None
    status: TodoStatus | None = None
    dependencies: tuple[str, ...] | None = None
    verify: str | None = None


def make_slug(name: str) -> str:
    """Make ASCII words joined by "-", at most 40 characters; "plan" when nothing is left."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:40].strip("-") or "plan"


def make_plan_path(name: str, directory: str) -> str:
    """Make a new path, `<place>/<slug>_<8 hex>.plan.md`."""
    return f"{directory}/{make_slug(name)}_{secrets.token_hex(4)}{PLAN_SUFFIX}"


def apply_todo_changes(existing: Sequence[Todo], updates: Sequence[TodoChange], *, merge: bool) -> tuple[Todo, ...]:
    """Apply changes to a list of todos, or replace it but for what changes of known ids leave out (not `merge`). Raises
    `ToolInputInvalid` for a new todo without content or a bad graph."""
    todos_by_id = {todo.id: todo for todo in existing}
    duplicates = sorted(key for key, count in Counter(update.id for update in updates).items() if count > 1)
    if duplicates:
        raise ToolInputInvalid(f"The id {duplicates[0]} is given more than once.", hint="Send each todo once.")
    updated_todos = {update.id: _apply_change(todos_by_id.get(update.id), update) for update in updates}
    after = tuple(({**todos_by_id, **updated_todos} if merge else updated_todos).values())
    check_graph(after)
    return after


def _apply_change(todo: Todo | None, update: TodoChange) -> Todo:
    names = ("content", "status", "dependencies", "verify")
    fields = {name: value for name in names if (value := getattr(update, name)) is not None}
    if todo is not None:
        return replace(todo, **fields)
    if not (update.content or "").strip():
        raise ToolInputInvalid(
            f"There is no todo {update.id} yet, and the new one has no content.",
            hint="Give its content, or use the id of a todo in the list.",
        )
    return Todo(id=update.id, **fields)
