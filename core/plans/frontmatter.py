"""Plan files as text: YAML front matter and a Markdown body, round-tripped.

What a user or another tool wrote survives: unknown keys, comments, quoting, order and line endings. Only what changed
is written. The one module that opens ruamel.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any, cast, get_args

from msgspec import Struct

from core.errors import AgentTuiError
from core.protocol.documents import Todo, TodoStatus
from core.protocol.plans import Plan

if TYPE_CHECKING:
    from ruamel.yaml import YAML

_FRONT = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_STATUSES: tuple[str, ...] = get_args(TodoStatus)
_FILE_NAME = re.compile(r"^.*/|(?:_[0-9a-f]{8})?\.plan\.md$")
_ITEM = re.compile(r"^todos:[^\n]*\n(?:[ \t]*#[^\n]*\n)*( *)- ", re.MULTILINE)
_LIMIT = 1_000_000


class PlanError(AgentTuiError):
    """A plan file that can't be understood. It is never overwritten."""

    code = "plan_invalid"


class Page(Struct, kw_only=True):
    """A parsed plan file: `data` is ruamel's mapping with all that we don't know; `body` with "\\n" endings."""

    data: Any
    body: str
    crlf: bool = False
    bom: bool = False
    dash: int = 2


def parse(text: str, path: str) -> tuple[Plan, Page]:
    """Raises `PlanError` with file and line."""
    if len(text) > _LIMIT:
        raise PlanError(f"{path} is too large for a plan ({len(text):,} characters).")
    page = Page(data=None, body="", crlf="\r\n" in text, bom=text.startswith("\ufeff"))
    plain = text.removeprefix("\ufeff").replace("\r\n", "\n")
    match = _FRONT.match(plain)
    if match is None:
        raise PlanError(
            f"{path}, line 1: a plan begins with a front matter between two lines of ---.",
            hint="Put it back, or move the file out of the plans folder.",
        )
    item = _ITEM.search(match[1])
    page.dash = len(item[1]) if item else page.dash
    page.data, page.body = _load(match[1], path), plain[match.end() :]
    return _plan(page, path), page


def render(page: Page) -> str:
    """The file's text, in the conventions it was read with."""
    out = StringIO()
    _yaml(page.dash).dump(page.data, out)
    text = f"---\n{out.getvalue()}---\n{page.body}"
    text = text.replace("\n", "\r\n") if page.crlf else text
    return ("\ufeff" if page.bom else "") + text


def new_page(plan: Plan) -> Page:
    """A fresh file for a plan."""
    from ruamel.yaml.comments import CommentedMap, CommentedSeq

    data = CommentedMap(name=plan.name, overview=plan.overview, todos=CommentedSeq(), isProject=False)
    page = Page(data=data, body="")
    update(page, plan)
    return page


def update(page: Page, plan: Plan) -> None:
    """Bring the page to what `plan` says, touching only what differs."""
    for key, value in (("name", plan.name), ("overview", plan.overview)):
        if page.data.get(key) != value and (value or key in page.data):
            page.data[key] = value
    if page.body.strip("\n") != plan.body.strip("\n"):
        page.body = f"\n{plan.body.strip(chr(10))}\n"
    _update_todos(page.data, plan.todos)


def _update_todos(data: Any, todos: Sequence[Todo]) -> None:
    from ruamel.yaml.comments import CommentedMap, CommentedSeq

    items = data.get("todos")
    if not isinstance(items, CommentedSeq):
        items = data["todos"] = CommentedSeq()
    present = {str(item.get("id")): item for item in items}
    wanted = [todo.id for todo in todos]
    if [str(item.get("id")) for item in items] != wanted:
        items[:] = [present.get(key, CommentedMap(id=key, content="", status="pending")) for key in wanted]
    for item, todo in zip(items, todos, strict=True):
        for key, value, absent in (("content", todo.content, ""), ("status", todo.status, "pending")):
            if (item.get(key) or absent) != value:
                item[key] = value
        if tuple(item.get("dependencies") or ()) != todo.dependencies:
            item["dependencies"] = list(todo.dependencies)


def _yaml(dash: int = 2) -> YAML:
    """`dash`: the column of the dashes in a list."""
    from ruamel.yaml import YAML

    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = 4096
    yaml.indent(mapping=2, sequence=dash + 2, offset=dash)
    return yaml


def _load(front: str, path: str) -> Any:
    from ruamel.yaml.comments import CommentedMap
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        data = _yaml().load(front)
    except MarkedYAMLError as error:
        line = (error.problem_mark.line if error.problem_mark else 0) + 2
        raise PlanError(
            f"{path}, line {line}: {error.problem or 'this is no valid YAML'}.", hint="Mend the front matter."
        ) from error
    except (YAMLError, ValueError, RecursionError) as error:
        raise PlanError(f"{path}: the front matter is no valid YAML ({error}).", hint="Mend it.") from error
    if data is None:
        return CommentedMap()
    if not isinstance(data, CommentedMap):
        raise PlanError(f"{path}, line 2: the front matter is no mapping of keys to values.", hint="Mend it.")
    return data


def _plan(page: Page, path: str) -> Plan:
    items = page.data.get("todos") or []
    if not isinstance(items, list):
        raise PlanError(f"{path}: todos is not a list.", hint="Write each todo as a list item with id and content.")
    return Plan(
        path=path,
        name=str(page.data.get("name") or _FILE_NAME.sub("", path)),
        overview=str(page.data.get("overview") or ""),
        body=page.body.strip("\n"),
        todos=tuple(_todo(item, f"{path}, todo {number}") for number, item in enumerate(items, start=1)),
    )


def _todo(item: Any, where: str) -> Todo:
    if not isinstance(item, dict) or not str(item.get("id") or "").strip():
        raise PlanError(f"{where}: it has no id.", hint="A todo is a mapping with id, content and status.")
    status = item.get("status") or "pending"
    if status not in _STATUSES:
        raise PlanError(f"{where}: the status {status} is unknown.", hint=f"Use one of {', '.join(_STATUSES)}.")
    dependencies = item.get("dependencies") or []
    if not isinstance(dependencies, list):
        raise PlanError(f"{where}: dependencies is not a list.", hint="Write the ids as a list.")
    return Todo(
        id=str(item["id"]),
        content=str(item.get("content") or ""),
        status=cast(TodoStatus, status),
        dependencies=tuple(str(each) for each in dependencies),
    )
