"""Plan files as text: YAML front matter and a Markdown body.

What a user or another tool wrote survives byte for byte: unknown keys, comments, quoting, order, indentation and
line endings. A change is spliced into the text, and the result is read again before anybody gets it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal, cast, get_args

from msgspec import Struct

from core.errors import AgentTuiError
from core.plans.todo_graph import find_faults
from core.plans.yaml_edits import FieldText, YamlText, fill_list, list_scalar_texts, reorder_list, set_value
from core.plans.yaml_nodes import YamlMapping, YamlNode, YamlScalar
from core.plans.yaml_nodes import YamlSequence as ListNode
from core.plans.yaml_parser import YamlError, parse_yaml
from core.plans.yaml_scalars import format_scalar
from core.protocol.documents import Todo, TodoStatus
from core.protocol.messages import Effort
from core.protocol.plans import Plan
from core.text.splices import Splice, apply_splices

_FRONT = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_STATUSES: tuple[str, ...] = get_args(TodoStatus)
# How other tools spell a status.
_SPELLINGS = {
    "in-progress": "in_progress",
    "in progress": "in_progress",
    "todo": "pending",
    "done": "completed",
    "complete": "completed",
    "canceled": "cancelled",
}
_FILE_NAME = re.compile(r"^.*/|(?:_[0-9a-f]{8})?\.plan\.md$")
_NO_FRONT = "a plan begins with a front matter between two lines of ---"
_EFFORTS: tuple[Effort, ...] = get_args(Effort)
_MAX_LENGTH = 2_000_000
_EMPTY = "---\nname:\noverview:\ntodos: []\nisProject: false\n---\n"
_KEYS_BEFORE: dict[str, tuple[str, ...]] = {
    "name": (),
    "overview": ("name",),
    "content": ("id",),
    "status": ("id", "content"),
    "dependencies": ("id", "content", "status"),
    "verify": ("id", "content", "status", "dependencies"),
    "model": ("id", "content", "status", "dependencies", "verify"),
    "effort": ("id", "content", "status", "dependencies", "verify", "model"),
}


class PlanError(AgentTuiError):
    """A plan file that can't be understood. It is never overwritten."""

    code = "plan_invalid"


class PlanFault(Struct, frozen=True, kw_only=True):
    """One thing that is wrong in a plan file. `line` counts from 1 in the file."""

    line: int
    text: str
    hint: str = ""


class PlanSource(Struct, kw_only=True):
    """The text and tree of a parsed plan file; it is shared, nobody changes it.

    `start` and `end` are the front matter's offsets in `text`, `body` that of the body; `items` are the todos'
    nodes, in the order of the plan's todos.
    """

    text: str
    start: int
    end: int
    body: int
    root: YamlMapping
    items: list[YamlMapping]

    @property
    def newline(self) -> str:
        return "\r\n" if self.text.count("\r\n") * 2 > self.text.count("\n") else "\n"


@lru_cache(maxsize=2)  # a plan is asked for far more often than it changes, and reading a long one takes a second
def parse_plan_file(text: str, path: str) -> tuple[Plan, PlanSource]:
    """Parse a plan file. Raises `PlanError` with file and line."""
    plan, page, broken = read_plan_file(text, path)
    if broken:
        more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
        raise PlanError(f"{path}, line {broken[0].line}: {broken[0].text}{more}", hint=broken[0].hint)
    return plan, page


def read_plan_file(text: str, path: str) -> tuple[Plan, PlanSource, list[PlanFault]]:
    """Read what can be read of a plan file, and each fault in it. Raises `PlanError` when there is nothing to read."""
    if len(text) > _MAX_LENGTH:
        raise PlanError(f"{path} is too large for a plan ({len(text):,} characters).")
    match = _FRONT.match(text)
    if match is None:
        begun = text.removeprefix("\ufeff").startswith("---")
        what = "the front matter that begins here has no end, a line of ---" if begun else _NO_FRONT
        raise PlanError(f"{path}, line 1: {what}.", hint="Put it back, or move the file out of the plans folder.")
    root = _parse_root(match[1], path)
    page = PlanSource(text=text, start=match.start(1), end=match.end(1), body=match.end(), root=root, items=[])
    broken: list[PlanFault] = []
    page.items = list(_parse_items(root, broken))
    return _build_plan(page, path, broken), page, broken


def locate_graph_faults(plan: Plan, page: PlanSource) -> tuple[PlanFault, ...]:
    """Find what is wrong with the graph of the todos, each with its line."""
    found = []
    for each in find_faults(plan.todos):
        item = page.items[each.todo]
        pair = item.find_pair("dependencies") if each.dependency >= 0 else item.find_pair("id")
        line = pair.key.line if pair else item.line
        if pair and isinstance(pair.value, ListNode) and pair.value.items:
            line = pair.value.items[each.dependency].line
        found.append(PlanFault(line=line + 1, text=each.text))
    return tuple(found)


def render_new_plan(plan: Plan) -> str:
    """Render a fresh file for a plan."""
    return rewrite_plan(parse_plan_file(_EMPTY, plan.path)[1], plan)


def rewrite_plan(page: PlanSource, plan: Plan) -> str:
    """Bring the file's text to what `plan` says, touching only what differs.

    Raises `PlanError` where the text is written in a way that can't be changed without a change of something else.
    """
    for unalias in (False, True):
        text = _splice_changes(page, plan, unalias=unalias)
        with contextlib.suppress(PlanError):
            if parse_plan_file(text, plan.path)[0] == plan:
                return text
    raise PlanError(
        f"{plan.path} is written in a way that this change does not fit into.", hint="Edit the file by hand."
    )


def _splice_changes(page: PlanSource, plan: Plan, *, unalias: bool) -> str:
    """The changed text, not yet read again. `unalias`: what stays says itself what it had from an anchor elsewhere."""
    before = _build_plan(page, plan.path, [])
    front = page.text[page.start : page.end]
    lines = YamlText(front, page.newline)
    splices = [
        *_change_head(lines, page, before, plan),
        *_change_todos(lines, page, before.todos, plan.todos, unalias=unalias),
    ]
    return (
        page.text[: page.start]
        + apply_splices(front, splices)
        + page.text[page.end : page.body]
        + _fit_body(page, plan.body)
    )


def _change_head(lines: YamlText, page: PlanSource, before: Plan, plan: Plan) -> Iterator[Splice]:
    for key, old, new in (("name", before.name, plan.name), ("overview", before.overview, plan.overview)):
        if old != new:
            yield set_value(lines, page.root, key, new, after=_KEYS_BEFORE[key])


def _fit_body(page: PlanSource, body: str) -> str:
    """Return the body with the blank lines around it as they were."""
    old = page.text[page.body :]
    plain = old.replace("\r\n", "\n")
    core = plain.strip("\n")
    if core == body.strip("\n"):
        return old
    lead = plain[: len(plain) - len(plain.lstrip("\n"))] if core else "\n"
    tail = plain[len(plain.rstrip("\n")) :] if core else "\n"
    return f"{lead}{body.strip(chr(10))}{tail}".replace("\n", page.newline)


def _change_todos(
    lines: YamlText, page: PlanSource, before: Sequence[Todo], after: Sequence[Todo], *, unalias: bool
) -> Iterator[Splice]:
    if tuple(before) == tuple(after):
        return
    pair = page.root.find_pair("todos")
    node = pair.value if pair else None
    flow = page.root.is_flow or (isinstance(node, ListNode) and node.is_flow and bool(node.items))
    wanted = {todo.id: todo for todo in after}

    def make(key: str) -> str:
        return (
            _render_flow_todo(wanted[key])
            if flow
            else _render_todo(wanted[key], lines.newline, _find_column(lines, node))
        )

    if not isinstance(node, ListNode) or not node.items:
        yield fill_list(lines, page.root, "todos", [make(todo.id) for todo in after])
        return
    nodes = {todo.id: (todo, item) for todo, item in zip(before, page.items, strict=True)}
    edits = {
        todo.id: list(_change_fields(lines, nodes[todo.id][1], nodes[todo.id][0], todo, unalias=unalias))
        for todo in after
        if todo.id in nodes and (unalias or todo != nodes[todo.id][0])
    }
    ids, order = [todo.id for todo in before], [todo.id for todo in after]
    if ids == order:
        yield from (splice for key in order for splice in edits.get(key, ()))
    else:
        yield reorder_list(lines, node, order, ids=ids, make=make, edits=edits)


def _find_column(lines: YamlText, node: YamlNode | None) -> int:
    """The column where the keys of a new todo stand."""
    if isinstance(node, ListNode) and node.items and isinstance(node.items[0], YamlMapping) and not node.is_flow:
        dash = lines.text.rfind("-", 0, node.items[0].start)
        return dash - lines.find_line_start(dash) + 2
    return 4


def _change_fields(lines: YamlText, item: YamlMapping, before: Todo, after: Todo, *, unalias: bool) -> Iterator[Splice]:
    fields: tuple[tuple[str, FieldText, FieldText], ...] = (
        ("content", before.content, after.content),
        ("status", before.status, after.status),
        ("dependencies", before.dependencies, after.dependencies),
        ("verify", before.verify, after.verify),
        ("model", before.model, after.model),
        ("effort", before.effort, after.effort),
    )
    # New keys that come at the same place are given in the order in which they are to stand.
    present = [key for key, *_ in fields if (pair := item.find_pair(key)) and not pair.is_merged]
    for key, old, new in fields:
        pair = item.find_pair(key)
        if old != new or (unalias and pair and not pair.is_merged and not pair.value.is_own):
            yield set_value(
                lines, item, key, new, after=[each for each in _KEYS_BEFORE[key] if each in ("id", *present)]
            )


def _render_todo(todo: Todo, newline: str, column: int) -> str:
    pad = newline + " " * column
    rows = [f"id: {format_scalar(todo.id)}", f"content: {format_scalar(todo.content)}", f"status: {todo.status}"]
    if todo.dependencies:
        rows.append("dependencies:")
        rows += [f"  - {format_scalar(each)}" for each in todo.dependencies]
    rows += [f"{key}: {format_scalar(value)}" for key, value in _list_optional_fields(todo)]
    return pad.join(rows)


def _list_optional_fields(todo: Todo) -> list[tuple[str, str]]:
    """List the keys of a todo that are there only when they say something."""
    found = (("verify", todo.verify), ("model", todo.model), ("effort", todo.effort))
    return [(key, value) for key, value in found if value]


def _render_flow_todo(todo: Todo) -> str:
    rows = [f"id: {format_scalar(todo.id, flow=True)}", f"content: {format_scalar(todo.content, flow=True)}"]
    rows.append(f"status: {todo.status}")
    if todo.dependencies:
        rows.append(f"dependencies: [{', '.join(format_scalar(each, flow=True) for each in todo.dependencies)}]")
    rows += [f"{key}: {format_scalar(value, flow=True)}" for key, value in _list_optional_fields(todo)]
    return f"{{{', '.join(rows)}}}"


def _parse_root(front: str, path: str) -> YamlMapping:
    try:
        root = parse_yaml(front)
    except YamlError as error:
        raise PlanError(f"{path}, line {error.line + 1}: {error.message}", hint="Mend the front matter.") from error
    if root is None or (isinstance(root, YamlScalar) and root.text is None):
        return YamlMapping(len(front), len(front), 1, 0)
    if not isinstance(root, YamlMapping):
        raise PlanError(f"{path}, line 2: the front matter is no mapping of keys to values.", hint="Mend it.")
    return root


def _parse_items(root: YamlMapping, broken: list[PlanFault]) -> Iterator[YamlMapping]:
    pair = root.find_pair("todos")
    if pair is None or (isinstance(pair.value, YamlScalar) and not pair.value.text):
        return
    if not isinstance(pair.value, ListNode):
        hint = "Write each todo as a list item with id and content."
        broken.append(PlanFault(line=pair.key.line + 1, text="todos is not a list.", hint=hint))
        return
    seen: dict[str, int] = {}
    for number, item in enumerate(pair.value.items, start=1):
        line = item.line + 1
        key = _get_text(item, "id") if isinstance(item, YamlMapping) else ""
        if not isinstance(item, YamlMapping) or not key.strip():
            hint = "A todo is a mapping with id, content and status."
            broken.append(PlanFault(line=line, text=f"todo {number}: it has no id.", hint=hint))
        elif key in seen:
            text = f"todo {number}: the id {key[:80]} is that of the todo on line {seen[key]}, too."
            broken.append(PlanFault(line=line, text=text, hint="Give it another id."))
        else:
            seen[key] = line
            yield item


def _build_plan(page: PlanSource, path: str, broken: list[PlanFault]) -> Plan:
    return Plan(
        path=path,
        name=_get_text(page.root, "name") or _FILE_NAME.sub("", path),
        overview=_get_text(page.root, "overview"),
        body=page.text[page.body :].replace("\r\n", "\n").strip("\n"),
        todos=tuple(_build_todo(item, broken) for item in page.items),
    )


def _get_text(item: YamlMapping, key: str) -> str:
    pair = item.find_pair(key)
    return (pair.value.text or "") if pair and isinstance(pair.value, YamlScalar) else ""


def _build_todo(item: YamlMapping, broken: list[PlanFault]) -> Todo:
    pair = item.find_pair("status")
    status = _get_text(item, "status").strip() or "pending"
    status = _SPELLINGS.get(status.lower(), status)
    if status not in _STATUSES:
        line = (pair.key.line if pair else item.line) + 1
        hint = f"Use one of {', '.join(_STATUSES)}."
        broken.append(PlanFault(line=line, text=f"the status {status[:80]} is unknown.", hint=hint))
        status = "pending"
    return Todo(
        id=_get_text(item, "id"),
        content=_get_text(item, "content"),
        status=cast(TodoStatus, status),
        dependencies=_parse_dependencies(item, broken),
        verify=_get_text(item, "verify"),
        model=_parse_model(item, broken),
        effort=_parse_effort(item, broken),
    )


def _parse_model(item: YamlMapping, broken: list[PlanFault]) -> str:
    model, pair = _get_text(item, "model").strip(), item.find_pair("model")
    if model and not all(part.strip() for part in (*model.partition("/")[::2],)):
        line = (pair.key.line if pair else item.line) + 1
        broken.append(PlanFault(line=line, text=f"{model[:80]} is no model.", hint="Write PROVIDER/NAME."))
        return ""
    return model


def _parse_effort(item: YamlMapping, broken: list[PlanFault]) -> Effort | Literal[""]:
    effort, pair = _get_text(item, "effort").strip(), item.find_pair("effort")
    known = next((each for each in _EFFORTS if each == effort), None)
    if effort and known is None:
        line = (pair.key.line if pair else item.line) + 1
        hint = f"Use one of {', '.join(_EFFORTS)}."
        broken.append(PlanFault(line=line, text=f"the effort {effort[:80]} is unknown.", hint=hint))
    return known or ""


def _parse_dependencies(item: YamlMapping, broken: list[PlanFault]) -> tuple[str, ...]:
    pair = item.find_pair("dependencies")
    if pair is None or (isinstance(pair.value, YamlScalar) and not pair.value.text):
        return ()
    if not isinstance(pair.value, ListNode) or any(not isinstance(each, YamlScalar) for each in pair.value.items):
        line = pair.key.line + 1
        broken.append(PlanFault(line=line, text="dependencies is not a list of ids.", hint="Write the ids as a list."))
        return ()
    return tuple(list_scalar_texts(pair.value))
