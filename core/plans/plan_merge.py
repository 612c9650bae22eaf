"""Two changes of one plan merged: what the user's file says, and what was wanted here. Pure.

Field by field and line by line. Where both changed the same thing differently the file wins, and what was not taken
is reported in a `PlanConflict`, with its text, so that nothing is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from core.plans.todo_graph import list_problems
from core.protocol.documents import Todo
from core.protocol.plans import Plan

FieldValue = TypeVar("FieldValue")


class PlanConflict(Struct, frozen=True, kw_only=True):
    """Something that both sides changed: `where`, and what was wanted here and is not in the file (`dropped`)."""

    where: str
    dropped: str


class MergedPlan(NamedTuple):
    """A plan with the changes of both sides, and what of them conflicted."""

    plan: Plan
    conflicts: tuple[PlanConflict, ...] = ()


def merge_plans(base: Plan, mine: Plan, theirs: Plan) -> MergedPlan:
    """Merge two changes of `base`, what both began from; `theirs` is the file as it is now."""
    clashes: list[PlanConflict] = []
    body = _merge_body(base.body, mine.body, theirs.body, clashes)
    todos = _merge_todos(base.todos, mine.todos, theirs.todos, clashes)
    plan = replace(
        theirs,
        name=_merge_field("the name", base.name, mine.name, theirs.name, clashes),
        overview=_merge_field("the overview", base.overview, mine.overview, theirs.overview, clashes),
        body=body,
        todos=todos,
    )
    return MergedPlan(plan=plan, conflicts=tuple(clashes))


def _merge_field(
    where: str, base: FieldValue, mine: FieldValue, theirs: FieldValue, clashes: list[PlanConflict]
) -> FieldValue:
    if mine in (base, theirs):
        return theirs
    if theirs == base:
        return mine
    shown = ", ".join(mine) if isinstance(mine, tuple) else str(mine)
    clashes.append(PlanConflict(where=where, dropped=shown or "(nothing)"))
    return theirs


def _merge_todos(
    base: Sequence[Todo], mine: Sequence[Todo], theirs: Sequence[Todo], clashes: list[PlanConflict]
) -> tuple[Todo, ...]:
    was, own, others = ({todo.id: todo for todo in each} for each in (base, mine, theirs))
    merged: dict[str, Todo] = {}
    for key in _merge_order(list(was), list(own), list(others)):
        todo = _merge_todo(key, was.get(key), own.get(key), others.get(key), clashes)
        if todo is not None:
            merged[key] = todo
    return tuple(_repair_graph(merged, others, clashes).values())


def _merge_todo(
    key: str, base: Todo | None, mine: Todo | None, theirs: Todo | None, clashes: list[PlanConflict]
) -> Todo | None:
    if mine is None or theirs is None:
        return _merge_one_sided(key, base, mine, theirs, clashes)
    start = base or replace(theirs, content="", status="pending", dependencies=(), verify="", model="", effort="")
    fields = {}
    for name in ("content", "status", "dependencies", "verify", "model", "effort"):
        was, own, other = (getattr(each, name) for each in (start, mine, theirs))
        fields[name] = _merge_field(f"todo {key}, {name}", was, own, other, clashes)
    return replace(theirs, **fields)


def _merge_one_sided(
    key: str, base: Todo | None, mine: Todo | None, theirs: Todo | None, clashes: list[PlanConflict]
) -> Todo | None:
    """Merge a todo that one side does not have: new there, or removed here. A removal does not win over a change."""
    if base is None:
        return mine or theirs
    if mine is not None and mine != base:
        shown = f"{mine.status}: {mine.content}"
        clashes.append(PlanConflict(where=f"todo {key}, which was removed from the file", dropped=shown))
    if theirs is None or theirs == base:
        return None
    clashes.append(PlanConflict(where=f"todo {key}, which was changed in the file", dropped="its removal"))
    return theirs


def _merge_order(base: list[str], mine: list[str], theirs: list[str]) -> list[str]:
    """Take the order of the side that changed it, else the file's; ids that it lacks follow their neighbours."""
    shared = set(mine) & set(theirs)
    unmoved = [key for key in theirs if key in shared] == [key for key in base if key in shared]
    first, second = (mine, theirs) if unmoved else (theirs, mine)
    merged = list(first)
    at = 0
    for key in second:
        if key in first:
            at = merged.index(key) + 1
        else:
            merged.insert(at, key)
            at += 1
    return merged


def _repair_graph(merged: dict[str, Todo], theirs: dict[str, Todo], clashes: list[PlanConflict]) -> dict[str, Todo]:
    """Repair two sound graphs that make an unsound one together: the file's dependencies hold, as far as they can."""
    faulty = set(list_problems(tuple(merged.values()))) - set(list_problems(tuple(theirs.values())))
    if not faulty:
        return merged
    mended = {}
    for key, todo in merged.items():
        asked = theirs[key].dependencies if key in theirs else todo.dependencies
        kept = tuple(each for each in asked if each in merged and (key in theirs or each != key))
        if kept != todo.dependencies:
            dropped = ", ".join(todo.dependencies) or "(none)"
            clashes.append(PlanConflict(where=f"todo {key}, dependencies", dropped=dropped))
        mended[key] = replace(todo, dependencies=kept)
    new = [key for key in mended if key not in theirs]
    while new and set(list_problems(tuple(mended.values()))) - set(list_problems(tuple(theirs.values()))):
        key = new.pop()
        mended[key] = replace(mended[key], dependencies=())
    return mended


def _merge_body(base: str, mine: str, theirs: str, clashes: list[PlanConflict]) -> str:
    if mine in (base, theirs):
        return theirs
    if theirs == base:
        return mine
    parts: list[str] = []
    for own, other, clash in _merge_lines(base.split("\n"), mine.split("\n"), theirs.split("\n")):
        if clash:
            clashes.append(PlanConflict(where="the text", dropped="\n".join(own) or "(these lines removed)"))
        parts += other
    return "\n".join(parts)


LineChange = tuple[int, int, list[str]]


def _merge_lines(base: list[str], mine: list[str], theirs: list[str]) -> Iterator[tuple[list[str], list[str], bool]]:
    """Yield the base in order as (lines of mine, lines to be taken, True if they conflict), after diff3."""
    sides = (_diff_changes(base, mine), _diff_changes(base, theirs))
    edits = sorted((first, last, side, new) for side, found in enumerate(sides) for first, last, new in found)
    at = 0
    while edits:
        start, end = edits[0][:2]
        group: tuple[list[LineChange], list[LineChange]] = ([], [])
        while edits and edits[0][0] <= end:
            first, last, side, new = edits.pop(0)
            group[side].append((first, last, new))
            end = max(end, last)
        yield [], base[at:start], False
        own, other = (_apply_changes(base, start, end, each) for each in group)
        clash = bool(group[0] and group[1] and own != other)
        yield own, other if group[1] else own, clash
        at = end
    yield [], base[at:], False


def _apply_changes(base: list[str], start: int, end: int, edits: list[LineChange]) -> list[str]:
    lines: list[str] = []
    at = start
    for first, last, new in edits:
        lines += [*base[at:first], *new]
        at = last
    return [*lines, *base[at:end]]


def _diff_changes(base: list[str], side: list[str]) -> list[LineChange]:
    matcher = SequenceMatcher(None, base, side, autojunk=False)
    return [(a0, a1, side[b0:b1]) for tag, a0, a1, b0, b1 in matcher.get_opcodes() if tag != "equal"]
