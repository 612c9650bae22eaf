"""Merge of two changes of one plan: those in the user's file, and those of the program. Pure.

Fields and lines are merged one by one. Where both changed the same thing differently the file wins, and the change that
was dropped is reported in a `PlanConflict`, with its text, so that nothing is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from core.plans.todo_graph import list_problems
from core.protocol.documents import Plan, Todo

FieldValue = TypeVar("FieldValue")


class PlanConflict(Struct, frozen=True, kw_only=True):
    """A conflict: `where` both sides changed something, and the text that is not in the file (`dropped`)."""

    where: str
    dropped: str


class MergedPlan(NamedTuple):
    """A plan with the changes of both sides, and their conflicts."""

    plan: Plan
    conflicts: tuple[PlanConflict, ...] = ()


def merge_plans(base: Plan, ours: Plan, theirs: Plan) -> MergedPlan:
    """Merge two changes of `base`, their common origin; `theirs` is the file as it is now."""
    conflicts: list[PlanConflict] = []
    body = _merge_body(base.body, ours.body, theirs.body, conflicts)
    todos = _merge_todos(base.todos, ours.todos, theirs.todos, conflicts)
    plan = replace(
        theirs,
        name=_merge_field("the name", base.name, ours.name, theirs.name, conflicts),
        overview=_merge_field("the overview", base.overview, ours.overview, theirs.overview, conflicts),
        body=body,
        todos=todos,
    )
    return MergedPlan(plan=plan, conflicts=tuple(conflicts))


def _merge_field(
    location: str, base: FieldValue, ours: FieldValue, theirs: FieldValue, conflicts: list[PlanConflict]
) -> FieldValue:
    if ours in (base, theirs):
        return theirs
    if theirs == base:
        return ours
    text = ", ".join(ours) if isinstance(ours, tuple) else str(ours)
    conflicts.append(PlanConflict(where=location, dropped=text or "(nothing)"))
    return theirs


def _merge_todos(
    base: Sequence[Todo], ours: Sequence[Todo], theirs: Sequence[Todo], conflicts: list[PlanConflict]
) -> tuple[Todo, ...]:
    base_todos, our_todos, others = ({todo.id: todo for todo in side} for side in (base, ours, theirs))
    merged_todos: dict[str, Todo] = {}
    for key in _merge_order(list(base_todos), list(our_todos), list(others)):
        todo = _merge_todo(key, base_todos.get(key), our_todos.get(key), others.get(key), conflicts)
        if todo is not None:
            merged_todos[key] = todo
    return tuple(_repair_graph(merged_todos, others, conflicts).values())


def _merge_todo(
    key: str, base: Todo | None, ours: Todo | None, theirs: Todo | None, conflicts: list[PlanConflict]
) -> Todo | None:
    if ours is None or theirs is None:
        return _merge_one_sided(key, base, ours, theirs, conflicts)
    start = base or replace(theirs, content="", status="pending", dependencies=(), verify="", model="", effort="")
    fields = {}
    for name in ("content", "status", "dependencies", "verify", "model", "effort"):
        base_value, our_value, other = (getattr(side, name) for side in (start, ours, theirs))
        fields[name] = _merge_field(f"todo {key}, {name}", base_value, our_value, other, conflicts)
    return replace(theirs, **fields)


def _merge_one_sided(
    key: str, base: Todo | None, ours: Todo | None, theirs: Todo | None, conflicts: list[PlanConflict]
) -> Todo | None:
    """Merge a todo that one side does not have: it is new there, or removed here. A change wins over a removal."""
    if base is None:
        return ours or theirs
    if ours is not None and ours != base:
        text = f"{ours.status}: {ours.content}"
        conflicts.append(PlanConflict(where=f"todo {key}, which was removed from the file", dropped=text))
    if theirs is None or theirs == base:
        return None
    conflicts.append(PlanConflict(where=f"todo {key}, which was changed in the file", dropped="its removal"))
    return theirs


def _merge_order(base: list[str], ours: list[str], theirs: list[str]) -> list[str]:
    """Return the order of the side that changed it, else the file's; ids that it lacks follow their neighbours."""
    shared_keys = set(ours) & set(theirs)
    is_unmoved = [key for key in theirs if key in shared_keys] == [key for key in base if key in shared_keys]
    first, second = (ours, theirs) if is_unmoved else (theirs, ours)
    merged_keys = list(first)
    position = 0
    for key in second:
        if key in first:
            position = merged_keys.index(key) + 1
        else:
            merged_keys.insert(position, key)
            position += 1
    return merged_keys


def _repair_graph(
    merged_todos: dict[str, Todo], theirs: dict[str, Todo], conflicts: list[PlanConflict]
) -> dict[str, Todo]:
    """Repair an inconsistent union of two consistent graphs: the file's dependencies are retained as far as
    possible."""
    faulty = set(list_problems(tuple(merged_todos.values()))) - set(list_problems(tuple(theirs.values())))
    if not faulty:
        return merged_todos
    repaired_todos = {}
    for key, todo in merged_todos.items():
        dependencies = theirs[key].dependencies if key in theirs else todo.dependencies
        valid_dependencies = tuple(
            dependency
            for dependency in dependencies
            if dependency in merged_todos and (key in theirs or dependency != key)
        )
        if valid_dependencies != todo.dependencies:
            dropped_text = ", ".join(todo.dependencies) or "(none)"
            conflicts.append(PlanConflict(where=f"todo {key}, dependencies", dropped=dropped_text))
        repaired_todos[key] = replace(todo, dependencies=valid_dependencies)
    new = [key for key in repaired_todos if key not in theirs]
    while new and set(list_problems(tuple(repaired_todos.values()))) - set(list_problems(tuple(theirs.values()))):
        key = new.pop()
        repaired_todos[key] = replace(repaired_todos[key], dependencies=())
    return repaired_todos


def _merge_body(base: str, ours: str, theirs: str, conflicts: list[PlanConflict]) -> str:
    if ours in (base, theirs):
        return theirs
    if theirs == base:
        return ours
    parts: list[str] = []
    for our_lines, other, has_conflict in _merge_lines(base.split("\n"), ours.split("\n"), theirs.split("\n")):
        if has_conflict:
            conflicts.append(PlanConflict(where="the text", dropped="\n".join(our_lines) or "(lines removed)"))
        parts += other
    return "\n".join(parts)


LineChange = tuple[int, int, list[str]]


def _merge_lines(base: list[str], ours: list[str], theirs: list[str]) -> Iterator[tuple[list[str], list[str], bool]]:
    """Yield the base in order as (our lines, lines to take, True if they conflict), after diff3."""
    sides = (_diff_changes(base, ours), _diff_changes(base, theirs))
    edits = sorted((first, last, side, new) for side, changes in enumerate(sides) for first, last, new in changes)
    position = 0
    while edits:
        start, end = edits[0][:2]
        group: tuple[list[LineChange], list[LineChange]] = ([], [])
        while edits and edits[0][0] <= end:
            first, last, side, new = edits.pop(0)
            group[side].append((first, last, new))
            end = max(end, last)
        yield [], base[position:start], False
        our_lines, other = (_apply_changes(base, start, end, changes) for changes in group)
        has_conflict = bool(group[0] and group[1] and our_lines != other)
        yield our_lines, other if group[1] else our_lines, has_conflict
        position = end
    yield [], base[position:], False


def _apply_changes(base: list[str], start: int, end: int, edits: list[LineChange]) -> list[str]:
    lines: list[str] = []
    position = start
    for first, last, new in edits:
        lines += [*base[position:first], *new]
        position = last
    return [*lines, *base[position:end]]


def _diff_changes(base: list[str], side: list[str]) -> list[LineChange]:
    matcher = SequenceMatcher(None, base, side, autojunk=False)
    return [(a0, a1, side[b0:b1]) for tag, a0, a1, b0, b1 in matcher.get_opcodes() if tag != "equal"]
