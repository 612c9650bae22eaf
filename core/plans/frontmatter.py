"""Plan files as text: YAML front matter and a Markdown body.

What a user or another tool wrote survives byte for byte: unknown keys, comments, quoting, order, indentation and line
endings. A change is spliced into the text, and the result is read again before anybody gets it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal, cast, get_args

from msgspec import Struct

from core.errors import AgentTuiError
from core.plans.graph import faults
from core.plans.scalars import written
from core.plans.splicing import Lines, Splice, Value, applied, new_list, ordered, scalar_ids, set_value
from core.plans.yaml_nodes import Mapping, Node, Scalar
from core.plans.yaml_nodes import Sequence as ListNode
from core.plans.yaml_tree import YamlError, compose
from core.protocol.documents import Todo, TodoStatus
from core.protocol.messages import Effort
from core.protocol.plans import Plan

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
_LIMIT = 2_000_000
_EMPTY = "---\nname:\noverview:\ntodos: []\nisProject: false\n---\n"
_BEFORE: dict[str, tuple[str, ...]] = {
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


class Fault(Struct, frozen=True, kw_only=True):
    """What is wrong in a plan file. `line` counts from 1 in the file."""

    line: int
    text: str
    hint: str = ""


class Page(Struct, kw_only=True):
    """A parsed plan file; it is shared, nobody changes it. `start` and `end` are the front matter's offsets in `text`,
    `body` that of the body; `items` are the todos' nodes, in the order of the plan's todos."""

    text: str
    start: int
    end: int
    body: int
    root: Mapping
    items: list[Mapping]

    @property
    def newline(self) -> str:
        return "\r\n" if self.text.count("\r\n") * 2 > self.text.count("\n") else "\n"


@lru_cache(maxsize=2)  # a plan is asked for far more often than it changes, and reading a long one takes a second
def parse(text: str, path: str) -> tuple[Plan, Page]:
    """Raises `PlanError` with file and line."""
    plan, page, broken = read(text, path)
    if broken:
        more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
        raise PlanError(f"{path}, line {broken[0].line}: {broken[0].text}{more}", hint=broken[0].hint)
    return plan, page


def read(text: str, path: str) -> tuple[Plan, Page, list[Fault]]:
    """What can be read of a plan file, and each thing in it that can't. Raises `PlanError` when that is all of it."""
    if len(text) > _LIMIT:
        raise PlanError(f"{path} is too large for a plan ({len(text):,} characters).")
    match = _FRONT.match(text)
    if match is None:
        begun = text.removeprefix("\ufeff").startswith("---")
        what = "the front matter that begins here has no end, a line of ---" if begun else _NO_FRONT
        raise PlanError(f"{path}, line 1: {what}.", hint="Put it back, or move the file out of the plans folder.")
    root = _root(match[1], path)
    page = Page(text=text, start=match.start(1), end=match.end(1), body=match.end(), root=root, items=[])
    broken: list[Fault] = []
    page.items = list(_items(root, broken))
    return _plan(page, path, broken), page, broken


def fault_lines(plan: Plan, page: Page) -> tuple[Fault, ...]:
    """What is wrong with the graph of the todos, each with its line."""
    found = []
    for each in faults(plan.todos):
        item = page.items[each.todo]
        pair = item.get("dependencies") if each.dependency >= 0 else item.get("id")
        line = pair.key.line if pair else item.line
        if pair and isinstance(pair.value, ListNode) and pair.value.items:
            line = pair.value.items[each.dependency].line
        found.append(Fault(line=line + 1, text=each.text))
    return tuple(found)


def new_text(plan: Plan) -> str:
    """A fresh file for a plan."""
    return changed(parse(_EMPTY, plan.path)[1], plan)


def changed(page: Page, plan: Plan) -> str:
    """The file's text brought to what `plan` says, touching only what differs. Raises `PlanError` where the text is
    written in a way that can't be changed without a change of something else."""
    for unalias in (False, True):
        text = _spliced(page, plan, unalias=unalias)
        with contextlib.suppress(PlanError):
            if parse(text, plan.path)[0] == plan:
                return text
    raise PlanError(
        f"{plan.path} is written in a way that this change does not fit into.", hint="Edit the file by hand."
    )


def _spliced(page: Page, plan: Plan, *, unalias: bool) -> str:
    """The changed text, not yet looked at. `unalias`: what stays says itself what it had from an anchor elsewhere."""
    before = _plan(page, plan.path, [])
    front = page.text[page.start : page.end]
    lines = Lines(front, page.newline)
    splices = [*_head(lines, page, before, plan), *_todos(lines, page, before.todos, plan.todos, unalias=unalias)]
    return page.text[: page.start] + applied(front, splices) + page.text[page.end : page.body] + _body(page, plan.body)


def _head(lines: Lines, page: Page, before: Plan, plan: Plan) -> Iterator[Splice]:
    for key, old, new in (("name", before.name, plan.name), ("overview", before.overview, plan.overview)):
        if old != new:
            yield set_value(lines, page.root, key, new, after=_BEFORE[key])


def _body(page: Page, body: str) -> str:
    """The body with the blank lines around it as they were."""
    old = page.text[page.body :]
    plain = old.replace("\r\n", "\n")
    core = plain.strip("\n")
    if core == body.strip("\n"):
        return old
    lead = plain[: len(plain) - len(plain.lstrip("\n"))] if core else "\n"
    tail = plain[len(plain.rstrip("\n")) :] if core else "\n"
    return f"{lead}{body.strip(chr(10))}{tail}".replace("\n", page.newline)


def _todos(
    lines: Lines, page: Page, before: Sequence[Todo], after: Sequence[Todo], *, unalias: bool
) -> Iterator[Splice]:
    if tuple(before) == tuple(after):
        return
    pair = page.root.get("todos")
    node = pair.value if pair else None
    flow = page.root.flow or (isinstance(node, ListNode) and node.flow and bool(node.items))
    wanted = {todo.id: todo for todo in after}

    def make(key: str) -> str:
        return _flow_row(wanted[key]) if flow else _row(wanted[key], lines.newline, _column(lines, node))

    if not isinstance(node, ListNode) or not node.items:
        yield new_list(lines, page.root, "todos", [make(todo.id) for todo in after])
        return
    nodes = {todo.id: (todo, item) for todo, item in zip(before, page.items, strict=True)}
    edits = {
        todo.id: list(_changes(lines, nodes[todo.id][1], nodes[todo.id][0], todo, unalias=unalias))
        for todo in after
        if todo.id in nodes and (unalias or todo != nodes[todo.id][0])
    }
    ids, order = [todo.id for todo in before], [todo.id for todo in after]
    if ids == order:
        yield from (splice for key in order for splice in edits.get(key, ()))
    else:
        yield ordered(lines, node, order, ids=ids, make=make, edits=edits)


def _column(lines: Lines, node: Node | None) -> int:
    """Where the keys of a new todo stand."""
    if isinstance(node, ListNode) and node.items and isinstance(node.items[0], Mapping) and not node.flow:
        dash = lines.text.rfind("-", 0, node.items[0].start)
        return dash - lines.start(dash) + 2
    return 4


def _changes(lines: Lines, item: Mapping, before: Todo, after: Todo, *, unalias: bool) -> Iterator[Splice]:
    fields: tuple[tuple[str, Value, Value], ...] = (
        ("content", before.content, after.content),
        ("status", before.status, after.status),
        ("dependencies", before.dependencies, after.dependencies),
        ("verify", before.verify, after.verify),
        ("model", before.model, after.model),
        ("effort", before.effort, after.effort),
    )
    # New keys that come at the same place are given in the order in which they are to stand.
    present = [key for key, *_ in fields if (pair := item.get(key)) and not pair.merged]
    for key, old, new in fields:
        pair = item.get(key)
        if old != new or (unalias and pair and not pair.merged and not pair.value.own):
            yield set_value(lines, item, key, new, after=[each for each in _BEFORE[key] if each in ("id", *present)])


def _row(todo: Todo, newline: str, column: int) -> str:
    pad = newline + " " * column
    rows = [f"id: {written(todo.id)}", f"content: {written(todo.content)}", f"status: {todo.status}"]
    if todo.dependencies:
        rows.append("dependencies:")
        rows += [f"  - {written(each)}" for each in todo.dependencies]
    rows += [f"{key}: {written(value)}" for key, value in _rest(todo)]
    return pad.join(rows)


def _rest(todo: Todo) -> list[tuple[str, str]]:
    """The keys of a todo that are there only when they say something."""
    found = (("verify", todo.verify), ("model", todo.model), ("effort", todo.effort))
    return [(key, value) for key, value in found if value]


def _flow_row(todo: Todo) -> str:
    rows = [f"id: {written(todo.id, flow=True)}", f"content: {written(todo.content, flow=True)}"]
    rows.append(f"status: {todo.status}")
    if todo.dependencies:
        rows.append(f"dependencies: [{', '.join(written(each, flow=True) for each in todo.dependencies)}]")
    rows += [f"{key}: {written(value, flow=True)}" for key, value in _rest(todo)]
    return f"{{{', '.join(rows)}}}"


def _root(front: str, path: str) -> Mapping:
    try:
        root = compose(front)
    except YamlError as error:
        raise PlanError(f"{path}, line {error.line + 1}: {error.message}", hint="Mend the front matter.") from error
    if root is None or (isinstance(root, Scalar) and root.text is None):
        return Mapping(len(front), len(front), 1, 0)
    if not isinstance(root, Mapping):
        raise PlanError(f"{path}, line 2: the front matter is no mapping of keys to values.", hint="Mend it.")
    return root


def _items(root: Mapping, broken: list[Fault]) -> Iterator[Mapping]:
    pair = root.get("todos")
    if pair is None or (isinstance(pair.value, Scalar) and not pair.value.text):
        return
    if not isinstance(pair.value, ListNode):
        hint = "Write each todo as a list item with id and content."
        broken.append(Fault(line=pair.key.line + 1, text="todos is not a list.", hint=hint))
        return
    seen: dict[str, int] = {}
    for number, item in enumerate(pair.value.items, start=1):
        line = item.line + 1
        key = _text(item, "id") if isinstance(item, Mapping) else ""
        if not isinstance(item, Mapping) or not key.strip():
            hint = "A todo is a mapping with id, content and status."
            broken.append(Fault(line=line, text=f"todo {number}: it has no id.", hint=hint))
        elif key in seen:
            text = f"todo {number}: the id {key[:80]} is that of the todo on line {seen[key]}, too."
            broken.append(Fault(line=line, text=text, hint="Give it another id."))
        else:
            seen[key] = line
            yield item


def _plan(page: Page, path: str, broken: list[Fault]) -> Plan:
    return Plan(
        path=path,
        name=_text(page.root, "name") or _FILE_NAME.sub("", path),
        overview=_text(page.root, "overview"),
        body=page.text[page.body :].replace("\r\n", "\n").strip("\n"),
        todos=tuple(_todo(item, broken) for item in page.items),
    )


def _text(item: Mapping, key: str) -> str:
    pair = item.get(key)
    return (pair.value.text or "") if pair and isinstance(pair.value, Scalar) else ""


def _todo(item: Mapping, broken: list[Fault]) -> Todo:
    pair = item.get("status")
    status = _text(item, "status").strip() or "pending"
    status = _SPELLINGS.get(status.lower(), status)
    if status not in _STATUSES:
        line = (pair.key.line if pair else item.line) + 1
        hint = f"Use one of {', '.join(_STATUSES)}."
        broken.append(Fault(line=line, text=f"the status {status[:80]} is unknown.", hint=hint))
        status = "pending"
    return Todo(
        id=_text(item, "id"),
        content=_text(item, "content"),
        status=cast(TodoStatus, status),
        dependencies=_dependencies(item, broken),
        verify=_text(item, "verify"),
        model=_model(item, broken),
        effort=_effort(item, broken),
    )


def _model(item: Mapping, broken: list[Fault]) -> str:
    model, pair = _text(item, "model").strip(), item.get("model")
    if model and not all(part.strip() for part in (*model.partition("/")[::2],)):
        line = (pair.key.line if pair else item.line) + 1
        broken.append(Fault(line=line, text=f"{model[:80]} is no model.", hint="Write PROVIDER/NAME."))
        return ""
    return model


def _effort(item: Mapping, broken: list[Fault]) -> Effort | Literal[""]:
    effort, pair = _text(item, "effort").strip(), item.get("effort")
    known = next((each for each in _EFFORTS if each == effort), None)
    if effort and known is None:
        line = (pair.key.line if pair else item.line) + 1
        hint = f"Use one of {', '.join(_EFFORTS)}."
        broken.append(Fault(line=line, text=f"the effort {effort[:80]} is unknown.", hint=hint))
    return known or ""


def _dependencies(item: Mapping, broken: list[Fault]) -> tuple[str, ...]:
    pair = item.get("dependencies")
    if pair is None or (isinstance(pair.value, Scalar) and not pair.value.text):
        return ()
    if not isinstance(pair.value, ListNode) or any(not isinstance(each, Scalar) for each in pair.value.items):
        line = pair.key.line + 1
        broken.append(Fault(line=line, text="dependencies is not a list of ids.", hint="Write the ids as a list."))
        return ()
    return tuple(scalar_ids(pair.value))
