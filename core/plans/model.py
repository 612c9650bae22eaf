"""What a plan file is named, and how a list of todos is merged with updates. Pure."""

from __future__ import annotations

import re
import secrets
import unicodedata
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from core.errors import ToolInputInvalid
from core.plans.graph import check
from core.protocol.documents import Todo, TodoStatus
from core.workspace.names import PLAN_SUFFIX, PLANS


class TodoUpdate(Struct, frozen=True, kw_only=True):
    """A todo as a model sends it: None leaves the field of a known todo as it is."""

    id: str
    content: str | None = None
    status: TodoStatus | None = None
    dependencies: tuple[str, ...] | None = None
    verify: str | None = None


def slug(name: str) -> str:
    """ASCII words joined by "-", at most 40 characters; "plan" when nothing is left."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:40].strip("-") or "plan"


def new_path(name: str) -> str:
    """`.cursor/plans/<slug>_<8 hex>.plan.md`"""
    return f"{PLANS}/{slug(name)}_{secrets.token_hex(4)}{PLAN_SUFFIX}"


def merge_todos(existing: Sequence[Todo], updates: Sequence[TodoUpdate], *, merge: bool) -> tuple[Todo, ...]:
    """The list after the updates: `merge` changes known ids and appends new ones, otherwise the list is replaced (a
    known id keeps what its update leaves out). Raises `ToolInputInvalid` for a new todo without content or a bad graph.
    """
    known = {todo.id: todo for todo in existing}
    doubled = {each.id for index, each in enumerate(updates) if each.id in {u.id for u in updates[:index]}}
    if doubled:
        raise ToolInputInvalid(f"The id {sorted(doubled)[0]} is given more than once.", hint="Send each todo once.")
    changed = {each.id: _updated(known.get(each.id), each) for each in updates}
    after = tuple(({**known, **changed} if merge else changed).values())
    check(after)
    return after


def _updated(todo: Todo | None, update: TodoUpdate) -> Todo:
    names = ("content", "status", "dependencies", "verify")
    given = {name: value for name in names if (value := getattr(update, name)) is not None}
    if todo is not None:
        return replace(todo, **given)
    if not (update.content or "").strip():
        raise ToolInputInvalid(
            f"There is no todo {update.id} yet, and the new one has no content.",
            hint="Give its content, or use the id of a todo in the list.",
        )
    return Todo(id=update.id, **given)
