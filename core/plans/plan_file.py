"""Plan files as text: YAML front matter and a Markdown body, parsed and written.

Text of a user or of another tool survives byte for byte: unknown keys, comments, quoting, order, indentation and line
endings. A change is spliced into the text, and the result is parsed again before it is returned.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, Literal, cast, get_args

from msgspec import Struct

from core.errors import AgentTuiError
from core.patterns import compile_lazily
from core.plans.todo_graph import find_faults
from core.plans.yaml_edits import YamlText, fill_list, format_value, list_scalar_texts, reorder_list, set_value
from core.plans.yaml_parser import YamlError, YamlMapping, YamlNode, YamlScalar, YamlSequence, parse_yaml
from core.protocol.documents import Plan, Todo, TodoStatus
from core.protocol.messages import Effort
from core.text.lines import Splice, apply_splices

_FRONT = compile_lazily(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_STATUSES: tuple[str, ...] = get_args(TodoStatus)
# Spellings of a status in other tools.
_SPELLINGS = {
    "in-progress": "in_progress",
    "in progress": "in_progress",
    "todo": "pending",
    "done": "completed",
    "complete": "completed",
    "canceled": "cancelled",
}
_FILE_NAME = compile_lazily(r"^.*/|(?:_[0-9a-f]{8})?\.plan\.md$")
_NO_FRONT = "a plan starts with front matter between two lines of ---"
_EFFORTS: tuple[Effort, ...] = get_args(Effort)
_MAX_LENGTH = 2_000_000  # characters
_EMPTY = "---\nname:\noverview:\ntodos: []\nisProject: false\n---\n"
_FIELDS: Final = ("content", "status", "dependencies", "verify", "model", "effort")  # of a todo, after its id
_OPTIONAL: Final = ("dependencies", "verify", "model", "effort")  # written only if they are not empty


class PlanError(AgentTuiError):
    """A plan file that can't be parsed. It is never overwritten."""

    code = "plan_invalid"


class PlanFault(Struct, frozen=True, kw_only=True):
    """One fault of a plan file. `line` counts from 1 in the file."""

    line: int
    text: str
    hint: str = ""


class PlanSource(Struct, kw_only=True):
    """The text and the tree of a parsed plan file; it is shared and must not be changed.

    `start` and `end` are the front matter's offsets in `text`, `body` that of the body; `items` are the nodes of the
    todos, in order.
    """

    text: str
    start: int
    end: int
    body: int
    root: YamlMapping
    items: list[YamlMapping]

    @property
    def newline(self) -> str:
        """The ending of most lines of the file."""
        return "\r\n" if self.text.count("\r\n") * 2 > self.text.count("\n") else "\n"


@lru_cache(maxsize=2)  # a plan is read far more often than it changes, and parsing a long one takes a second
def parse_plan_file(text: str, path: str) -> tuple[Plan, PlanSource]:
    """Parse a plan file. Raises `PlanError` with file and line."""
    plan, source, faults = read_plan_file(text, path)
    if faults:
        suffix = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise PlanError(f"{path}, line {faults[0].line}: {faults[0].text}{suffix}", hint=faults[0].hint)
    return plan, source


def read_plan_file(text: str, path: str) -> tuple[Plan, PlanSource, list[PlanFault]]:
    """Read a plan file as far as possible, with every fault in it. Raises `PlanError` if nothing can be read."""
    if len(text) > _MAX_LENGTH:
        raise PlanError(f"{path} is too large for a plan ({len(text):,} characters).")
    match = _FRONT.match(text)
    if match is None:
        has_opening = text.removeprefix("\ufeff").startswith("---")
        problem = "the front matter that starts here is not closed by a line of ---" if has_opening else _NO_FRONT
        raise PlanError(f"{path}, line 1: {problem}.", hint="Put it back, or move the file out of the plans folder.")
    root = _parse_root(match[1], path)
    faults: list[PlanFault] = []
    items = list(_parse_items(root, faults))
    source = PlanSource(text=text, start=match.start(1), end=match.end(1), body=match.end(), root=root, items=items)
    return build_plan(source, path, faults), source, faults


def locate_graph_faults(plan: Plan, source: PlanSource) -> tuple[PlanFault, ...]:
    """Find the faults of the todos' graph, with their lines."""
    faults = []
    for fault in find_faults(plan.todos):
        item = source.items[fault.todo]
        pair = item.find_pair("dependencies") if fault.dependency >= 0 else item.find_pair("id")
        line = pair.key.line if pair else item.line
        if pair and isinstance(pair.value, YamlSequence) and pair.value.items:
            line = pair.value.items[fault.dependency].line
        faults.append(PlanFault(line=line + 1, text=fault.text))
    return tuple(faults)


def _parse_root(front: str, path: str) -> YamlMapping:
    try:
        root = parse_yaml(front)
    except YamlError as error:
        raise PlanError(f"{path}, line {error.line + 1}: {error.message}", hint="Fix the front matter.") from error
    if root is None or (isinstance(root, YamlScalar) and root.text is None):
        return YamlMapping(len(front), len(front), 1, 0)
    if not isinstance(root, YamlMapping):
        raise PlanError(f"{path}, line 2: the front matter is not a mapping of keys to values.", hint="Mend it.")
    return root


def _parse_items(root: YamlMapping, faults: list[PlanFault]) -> Iterator[YamlMapping]:
    pair = root.find_pair("todos")
    if pair is None or (isinstance(pair.value, YamlScalar) and not pair.value.text):
        return
    if not isinstance(pair.value, YamlSequence):
        _add_fault(faults, root, "todos", "todos is not a list.", "Write each todo as a list item with id and content.")
        return
    lines_by_id: dict[str, int] = {}
    for number, item in enumerate(pair.value.items, start=1):
        line = item.line + 1
        key = _get_text(item, "id") if isinstance(item, YamlMapping) else ""
        if not isinstance(item, YamlMapping) or not key.strip():
            hint = "A todo is a mapping with id, content and status."
            faults.append(PlanFault(line=line, text=f"todo {number}: it has no id.", hint=hint))
        elif key in lines_by_id:
            text = f"todo {number}: the id {key[:80]} is already used by the todo on line {lines_by_id[key]}."
            faults.append(PlanFault(line=line, text=text, hint="Give it another id."))
        else:
            lines_by_id[key] = line
            yield item


def build_plan(source: PlanSource, path: str, faults: list[PlanFault]) -> Plan:
    """Build the plan of a parsed file; its faults are appended to `faults`."""
    return Plan(
        path=path,
        name=_get_text(source.root, "name") or _FILE_NAME.sub("", path),
        overview=_get_text(source.root, "overview"),
        body=source.text[source.body :].replace("\r\n", "\n").strip("\n"),
        todos=tuple(_build_todo(item, faults) for item in source.items),
    )


def _get_text(item: YamlMapping, key: str) -> str:
    pair = item.find_pair(key)
    return (pair.value.text or "") if pair and isinstance(pair.value, YamlScalar) else ""


def _add_fault(faults: list[PlanFault], item: YamlMapping, key: str, text: str, hint: str) -> None:
    """Add a fault on the line of a key, or of its todo."""
    pair = item.find_pair(key)
    faults.append(PlanFault(line=(pair.key.line if pair else item.line) + 1, text=text, hint=hint))


def _build_todo(item: YamlMapping, faults: list[PlanFault]) -> Todo:
    status = _get_text(item, "status").strip() or "pending"
    status = _SPELLINGS.get(status.lower(), status)
    if status not in _STATUSES:
        hint = f"Use one of {', '.join(_STATUSES)}."
        _add_fault(faults, item, "status", f"the status {status[:80]} is unknown.", hint)
        status = "pending"
    return Todo(
        id=_get_text(item, "id"),
        content=_get_text(item, "content"),
        status=cast(TodoStatus, status),
        dependencies=_parse_dependencies(item, faults),
        verify=_get_text(item, "verify"),
        model=_parse_model(item, faults),
        effort=_parse_effort(item, faults),
    )


def _parse_model(item: YamlMapping, faults: list[PlanFault]) -> str:
    model = _get_text(item, "model").strip()
    if model and not all(part.strip() for part in model.partition("/")):
        _add_fault(faults, item, "model", f"{model[:80]} is not a model.", "Write PROVIDER/NAME.")
        return ""
    return model


def _parse_effort(item: YamlMapping, faults: list[PlanFault]) -> Effort | Literal[""]:
    effort = _get_text(item, "effort").strip()
    if effort and effort not in _EFFORTS:
        hint = f"Use one of {', '.join(_EFFORTS)}."
        _add_fault(faults, item, "effort", f"the effort {effort[:80]} is unknown.", hint)
    return next((level for level in _EFFORTS if level == effort), "")


def _parse_dependencies(item: YamlMapping, faults: list[PlanFault]) -> tuple[str, ...]:
    pair = item.find_pair("dependencies")
    if pair is None or (isinstance(pair.value, YamlScalar) and not pair.value.text):
        return ()
    if not isinstance(pair.value, YamlSequence) or any(not isinstance(node, YamlScalar) for node in pair.value.items):
        _add_fault(faults, item, "dependencies", "dependencies is not a list of ids.", "Write the ids as a list.")
        return ()
    return tuple(list_scalar_texts(pair.value))


def render_new_plan(plan: Plan) -> str:
    """Render a new file for a plan."""
    return rewrite_plan(parse_plan_file(_EMPTY, plan.path)[1], plan)


def rewrite_plan(source: PlanSource, plan: Plan) -> str:
    """Return the file's text, changed to match `plan` and nowhere else. Raises `PlanError` if the text is written in a
    way that allows no such change."""
    for unalias in (False, True):
        text = _splice_changes(source, plan, unalias=unalias)
        with contextlib.suppress(PlanError):
            if parse_plan_file(text, plan.path)[0] == plan:
                return text
    problem = f"{plan.path} is formatted in a way that this change can't handle."
    raise PlanError(problem, hint="Edit the file by hand.")


def _splice_changes(source: PlanSource, plan: Plan, *, unalias: bool) -> str:
    """Return the changed text, not yet parsed again. `unalias`: changed fields get values of their own in place of
    aliases."""
    before = build_plan(source, plan.path, [])
    lines = YamlText(source.text[source.start : source.end], source.newline)
    splices = []
    if before.name != plan.name:
        splices.append(set_value(lines, source.root, "name", plan.name))
    if before.overview != plan.overview:
        splices.append(set_value(lines, source.root, "overview", plan.overview, after=("name",)))
    splices += _change_todos(lines, source, before.todos, plan.todos, unalias=unalias)
    between = source.text[source.end : source.body]
    return source.text[: source.start] + apply_splices(lines.text, splices) + between + _fit_body(source, plan.body)


def _fit_body(source: PlanSource, body: str) -> str:
    """Return the body with the original blank lines around it."""
    old = source.text[source.body :]
    plain = old.replace("\r\n", "\n")
    core = plain.strip("\n")
    if core == body.strip("\n"):
        return old
    lead = plain[: len(plain) - len(plain.lstrip("\n"))] if core else "\n"
    tail = plain[len(plain.rstrip("\n")) :] if core else "\n"
    return f"{lead}{body.strip(chr(10))}{tail}".replace("\n", source.newline)


def _change_todos(
    lines: YamlText, source: PlanSource, before: Sequence[Todo], after: Sequence[Todo], *, unalias: bool
) -> Iterator[Splice]:
    if tuple(before) == tuple(after):
        return
    pair = source.root.find_pair("todos")
    node = pair.value if pair else None
    flow = source.root.is_flow or (isinstance(node, YamlSequence) and node.is_flow and bool(node.items))
    todos_by_id = {todo.id: todo for todo in after}

    def make(key: str) -> str:
        return _render_todo(todos_by_id[key], "" if flow else lines.newline + " " * _find_column(lines, node))

    if not isinstance(node, YamlSequence) or not node.items:
        yield fill_list(lines, source.root, "todos", [make(todo.id) for todo in after])
        return
    nodes = {todo.id: (todo, item) for todo, item in zip(before, source.items, strict=True)}
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
    """Return the column of the keys of a new todo."""
    if isinstance(node, YamlSequence) and node.items and isinstance(node.items[0], YamlMapping) and not node.is_flow:
        dash = lines.text.rfind("-", 0, node.items[0].start)
        return dash - lines.find_line_start(dash) + 2
    return 4


def _change_fields(lines: YamlText, item: YamlMapping, before: Todo, after: Todo, *, unalias: bool) -> Iterator[Splice]:
    # New keys at the same offset are yielded in their final order.
    present = [key for key in _FIELDS if (pair := item.find_pair(key)) and not pair.is_merged]
    for number, key in enumerate(_FIELDS):
        pair, value = item.find_pair(key), getattr(after, key)
        if getattr(before, key) != value or (unalias and pair and not pair.is_merged and not pair.value.is_own):
            after_keys = ["id", *(field for field in _FIELDS[:number] if field in present)]
            yield set_value(lines, item, key, value, after=after_keys)


def _render_todo(todo: Todo, separator: str) -> str:
    """Render a new todo with `separator` between its keys; "" = in braces."""
    fields = {key: getattr(todo, key) for key in ("id", *_FIELDS)}
    present_fields = {key: value for key, value in fields.items() if value or key not in _OPTIONAL}
    if not separator:
        return (
            "{" + ", ".join(f"{key}: {format_value(value, flow=True)}" for key, value in present_fields.items()) + "}"
        )
    rows: list[str] = []
    for key, value in present_fields.items():
        if isinstance(value, tuple):
            rows += [f"{key}:", *(f"  - {format_value(entry)}" for entry in value)]
        else:
            rows.append(f"{key}: {format_value(value)}")
    return separator.join(rows)
