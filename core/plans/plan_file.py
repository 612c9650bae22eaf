"""Plan files as text: YAML front matter and a Markdown body.

What a user or another tool wrote survives byte for byte: unknown keys, comments, quoting, order, indentation and
line endings. A change is spliced into the text, and the result is read again before anybody gets it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, cast, get_args

from msgspec import Struct

from core.errors import AgentTuiError
from core.plans.todo_graph import find_faults
from core.plans.yaml_edits import list_scalar_texts
from core.plans.yaml_nodes import YamlMapping, YamlScalar, YamlSequence
from core.plans.yaml_parser import YamlError, parse_yaml
from core.protocol.documents import Plan, Todo, TodoStatus
from core.protocol.messages import Effort

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


class PlanError(AgentTuiError):
    """A plan file that can't be understood. It is never overwritten."""

    code = "plan_invalid"


class PlanFault(Struct, frozen=True, kw_only=True):
    """One thing that is wrong in a plan file. `line` counts from 1 in the file."""

    line: int
    text: str
    hint: str = ""


class PlanSource(Struct, kw_only=True):
    """The text and tree of a parsed plan file; it is shared, nobody changes it. `start` and `end` are the front
    matter's offsets in `text`, `body` that of the body; `items` are the nodes of the plan's todos, in order."""

    text: str
    start: int
    end: int
    body: int
    root: YamlMapping
    items: list[YamlMapping]

    @property
    def newline(self) -> str:
        """The ending that most lines of the file have."""
        return "\r\n" if self.text.count("\r\n") * 2 > self.text.count("\n") else "\n"


@lru_cache(maxsize=2)  # a plan is asked for far more often than it changes, and reading a long one takes a second
def parse_plan_file(text: str, path: str) -> tuple[Plan, PlanSource]:
    """Parse a plan file. Raises `PlanError` with file and line."""
    plan, source, faults = read_plan_file(text, path)
    if faults:
        suffix = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise PlanError(f"{path}, line {faults[0].line}: {faults[0].text}{suffix}", hint=faults[0].hint)
    return plan, source


def read_plan_file(text: str, path: str) -> tuple[Plan, PlanSource, list[PlanFault]]:
    """Read what can be read of a plan file, and each fault in it. Raises `PlanError` when there is nothing to read."""
    if len(text) > _MAX_LENGTH:
        raise PlanError(f"{path} is too large for a plan ({len(text):,} characters).")
    match = _FRONT.match(text)
    if match is None:
        has_opening = text.removeprefix("\ufeff").startswith("---")
        problem = "the front matter that begins here has no end, a line of ---" if has_opening else _NO_FRONT
        raise PlanError(f"{path}, line 1: {problem}.", hint="Put it back, or move the file out of the plans folder.")
    root = _parse_root(match[1], path)
    faults: list[PlanFault] = []
    items = list(_parse_items(root, faults))
    source = PlanSource(text=text, start=match.start(1), end=match.end(1), body=match.end(), root=root, items=items)
    return build_plan(source, path, faults), source, faults


def locate_graph_faults(plan: Plan, source: PlanSource) -> tuple[PlanFault, ...]:
    """Find what is wrong with the graph of the todos, each with its line."""
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
        raise PlanError(f"{path}, line {error.line + 1}: {error.message}", hint="Mend the front matter.") from error
    if root is None or (isinstance(root, YamlScalar) and root.text is None):
        return YamlMapping(len(front), len(front), 1, 0)
    if not isinstance(root, YamlMapping):
        raise PlanError(f"{path}, line 2: the front matter is no mapping of keys to values.", hint="Mend it.")
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
            text = f"todo {number}: the id {key[:80]} is that of the todo on line {lines_by_id[key]}, too."
            faults.append(PlanFault(line=line, text=text, hint="Give it another id."))
        else:
            lines_by_id[key] = line
            yield item


def build_plan(source: PlanSource, path: str, faults: list[PlanFault]) -> Plan:
    """The plan of a parsed file; what is wrong in it is appended to `faults`."""
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
        _add_fault(faults, item, "model", f"{model[:80]} is no model.", "Write PROVIDER/NAME.")
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
