"""Two changes of one plan brought together: what the user's file says, and what was wanted here. Pure.

Field by field and line by line. Where both changed the same thing differently the file wins, and what was not taken is
told in a `Clash`, with its text, so that nothing is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from core.plans.graph import problems
from core.protocol.documents import Todo
from core.protocol.plans import Plan

Got = TypeVar("Got")


class Clash(Struct, frozen=True, kw_only=True):
    """`where` both sides changed something; `dropped` is what was wanted here and is not in the file."""

    where: str
    dropped: str


class Merged(Struct, frozen=True, kw_only=True):
    plan: Plan
    clashes: tuple[Clash, ...] = ()


def merge(base: Plan, mine: Plan, theirs: Plan) -> Merged:
    """`base` is what both began from, `theirs` the file as it is now."""
    clashes: list[Clash] = []
    body = _body(base.body, mine.body, theirs.body, clashes)
    todos = _todos(base.todos, mine.todos, theirs.todos, clashes)
    plan = replace(
        theirs,
        name=_field("the name", base.name, mine.name, theirs.name, clashes),
        overview=_field("the overview", base.overview, mine.overview, theirs.overview, clashes),
        body=body,
        todos=todos,
    )
    return Merged(plan=plan, clashes=tuple(clashes))


def _field(where: str, base: Got, mine: Got, theirs: Got, clashes: list[Clash]) -> Got:
    if mine in (base, theirs):
        return theirs
    if theirs == base:
        return mine
    shown = ", ".join(mine) if isinstance(mine, tuple) else str(mine)
    clashes.append(Clash(where=where, dropped=shown or "(nothing)"))
    return theirs


def _todos(
    base: Sequence[Todo], mine: Sequence[Todo], theirs: Sequence[Todo], clashes: list[Clash]
) -> tuple[Todo, ...]:
    was, own, others = ({todo.id: todo for todo in each} for each in (base, mine, theirs))
    merged: dict[str, Todo] = {}
    for key in _order(list(was), list(own), list(others)):
        todo = _todo(key, was.get(key), own.get(key), others.get(key), clashes)
        if todo is not None:
            merged[key] = todo
    return tuple(_sound(merged, others, clashes).values())


def _todo(key: str, base: Todo | None, mine: Todo | None, theirs: Todo | None, clashes: list[Clash]) -> Todo | None:
    if mine is None or theirs is None:
        return _one_sided(key, base, mine, theirs, clashes)
    start = base or replace(theirs, content="", status="pending", dependencies=(), verify="", model="", effort="")
    fields = {
        name: _field(f"todo {key}, {name}", getattr(start, name), getattr(mine, name), getattr(theirs, name), clashes)
        for name in ("content", "status", "dependencies", "verify", "model", "effort")
    }
    return replace(theirs, **fields)


def _one_sided(
    key: str, base: Todo | None, mine: Todo | None, theirs: Todo | None, clashes: list[Clash]
) -> Todo | None:
    """A todo that one side does not have: new there, or removed here. A removal does not win over a change."""
    if mine is not None:
        if base is None:
            return mine
        if mine != base:
            shown = f"{mine.status}: {mine.content}"
            clashes.append(Clash(where=f"todo {key}, which was removed from the file", dropped=shown))
        return None
    if base is not None and theirs is not None and theirs == base:
        return None
    if base is not None and theirs is not None:
        clashes.append(Clash(where=f"todo {key}, which was changed in the file", dropped="its removal"))
    return theirs


def _order(base: list[str], mine: list[str], theirs: list[str]) -> list[str]:
    """The order of the side that changed it, the file's if both did; ids that it lacks follow their neighbours."""
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


def _sound(merged: dict[str, Todo], theirs: dict[str, Todo], clashes: list[Clash]) -> dict[str, Todo]:
    """Two sound graphs can make an unsound one together: then the file's dependencies hold, as far as they can."""
    faulty = set(problems(tuple(merged.values()))) - set(problems(tuple(theirs.values())))
    if not faulty:
        return merged
    mended = {}
    for key, todo in merged.items():
        asked = theirs[key].dependencies if key in theirs else todo.dependencies
        kept = tuple(each for each in asked if each in merged and (key in theirs or each != key))
        if kept != todo.dependencies:
            clashes.append(Clash(where=f"todo {key}, dependencies", dropped=", ".join(todo.dependencies) or "(none)"))
        mended[key] = replace(todo, dependencies=kept)
    new = [key for key in mended if key not in theirs]
    while new and set(problems(tuple(mended.values()))) - set(problems(tuple(theirs.values()))):
        key = new.pop()
        mended[key] = replace(mended[key], dependencies=())
    return mended


def _body(base: str, mine: str, theirs: str, clashes: list[Clash]) -> str:
    if mine in (base, theirs) or theirs == base:
        return theirs if mine in (base, theirs) else mine
    parts: list[str] = []
    for own, other, clash in _stretches(base.split("\n"), mine.split("\n"), theirs.split("\n")):
        if clash:
            clashes.append(Clash(where="the text", dropped="\n".join(own) or "(these lines removed)"))
        parts += other
    return "\n".join(parts)


Edit = tuple[int, int, list[str]]


def _stretches(base: list[str], mine: list[str], theirs: list[str]) -> Iterator[tuple[list[str], list[str], bool]]:
    """The base in order as (lines of mine, lines to be taken, whether they clash), after diff3."""
    edits = sorted(
        [*((each, 0) for each in _edits(base, mine)), *((each, 1) for each in _edits(base, theirs))],
        key=lambda found: (found[0][0], found[0][1], found[1]),
    )
    at = 0
    while edits:
        start, end = edits[0][0][0], edits[0][0][1]
        group: tuple[list[Edit], list[Edit]] = ([], [])
        while edits and (edits[0][0][0] <= end):
            edit, side = edits.pop(0)
            group[side].append(edit)
            end = max(end, edit[1])
        yield [], base[at:start], False
        own, other = (_side(base, start, end, each) for each in group)
        clash = bool(group[0] and group[1] and own != other)
        yield own, other if group[1] else own, clash
        at = end
    yield [], base[at:], False


def _side(base: list[str], start: int, end: int, edits: list[Edit]) -> list[str]:
    lines: list[str] = []
    at = start
    for first, last, new in edits:
        lines += [*base[at:first], *new]
        at = last
    return [*lines, *base[at:end]]


def _edits(base: list[str], side: list[str]) -> list[Edit]:
    matcher = SequenceMatcher(None, base, side, autojunk=False)
    return [(a0, a1, side[b0:b1]) for tag, a0, a1, b0, b1 in matcher.get_opcodes() if tag != "equal"]
