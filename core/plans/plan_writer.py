"""Plan files written: a change is spliced into the text of the file, and the result is read again before it is given
out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Final

from core.plans.plan_file import PlanError, PlanSource, build_plan, parse_plan_file
from core.plans.yaml_edits import YamlText, fill_list, reorder_list, set_value
from core.plans.yaml_nodes import YamlMapping, YamlNode, YamlSequence
from core.plans.yaml_scalars import format_value
from core.protocol.documents import Plan, Todo
from core.text.splices import Splice, apply_splices

_EMPTY = "---\nname:\noverview:\ntodos: []\nisProject: false\n---\n"
_FIELDS: Final = ("content", "status", "dependencies", "verify", "model", "effort")  # of a todo, behind its id
_OPTIONAL: Final = ("dependencies", "verify", "model", "effort")  # there only when they say something


def render_new_plan(plan: Plan) -> str:
    """Render a fresh file for a plan."""
    return rewrite_plan(parse_plan_file(_EMPTY, plan.path)[1], plan)


def rewrite_plan(source: PlanSource, plan: Plan) -> str:
    """Bring the file's text to what `plan` says, touching only what differs. Raises `PlanError` where the text is
    written in a way that can't be changed without a change of something else."""
    for unalias in (False, True):
        text = _splice_changes(source, plan, unalias=unalias)
        with contextlib.suppress(PlanError):
            if parse_plan_file(text, plan.path)[0] == plan:
                return text
    problem = f"{plan.path} is written in a way that this change does not fit into."
    raise PlanError(problem, hint="Edit the file by hand.")


def _splice_changes(source: PlanSource, plan: Plan, *, unalias: bool) -> str:
    """The changed text, not yet read again. `unalias`: what stays says itself what it had from an anchor elsewhere."""
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
    """Return the body with the blank lines around it as they were."""
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
    """The column where the keys of a new todo stand."""
    if isinstance(node, YamlSequence) and node.items and isinstance(node.items[0], YamlMapping) and not node.is_flow:
        dash = lines.text.rfind("-", 0, node.items[0].start)
        return dash - lines.find_line_start(dash) + 2
    return 4


def _change_fields(lines: YamlText, item: YamlMapping, before: Todo, after: Todo, *, unalias: bool) -> Iterator[Splice]:
    # New keys that come at the same place are given in the order in which they are to stand.
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
