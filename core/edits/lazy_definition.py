"""A draft that leaves nothing out and is one definition of the file: it takes the place of that definition.

By syntax tree where there is a grammar that names it, else by the key of its first line and what lies below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from core.edits.lazy_indents import reindented
from core.edits.lazy_keys import key_of
from core.edits.lazy_matches import CONTINUED, depth_of
from core.edits.lines import Lines
from core.edits.syntax import Definition, definitions

_MOST_LOST = 12


class Placed(NamedTuple):
    """The text with the definition replaced, and how many filled lines came and went."""

    text: str
    given: int
    gone: int


def one_definition(lines: Lines, new: Sequence[str], path: str, text: str) -> Placed | None:
    """The text with the draft in the place of the one definition that it is a version of; None when there is none."""
    span = _by_tree(lines, new, path, text) or _by_key(lines, new)
    if span is None:
        return None
    first, last = span
    filled = sum(bool(line.strip()) for line in lines.bodies[first : last + 1])
    given = sum(bool(line.strip()) for line in new)
    if last - first + 1 == len(lines) or filled > 3 * given + _MOST_LOST:
        return None
    rows = reindented(new, lines.bodies[first])
    done = lines.dominant().join(rows) + lines.ends[last]
    return Placed(text[: lines.starts[first]] + done + text[lines.stop(last) :], given, filled)


def _by_tree(lines: Lines, new: Sequence[str], path: str, text: str) -> tuple[int, int] | None:
    found = definitions(path, text)
    mine = definitions(path, "\n".join(new)) or _wrapped(path, new)
    if not found or not mine:
        return None
    outer = [each for each in mine if not any(line.strip() for line in new[: each.first])]
    if not outer or any(line.strip() for line in new[outer[0].last + 1 :]):
        return None
    named = [each for each in found if each.name == outer[0].name]
    if len(named) > 1:
        named = [each for each in named if lines.bodies[each.own].strip() == new[outer[0].own].strip()]
    if len(named) != 1 or _shrunk(found, mine, named[0]):
        return None
    return named[0].own if outer[0].own == outer[0].first else named[0].first, named[0].last


def _shrunk(found: Sequence[Definition], mine: Sequence[Definition], place: Definition) -> bool:
    """Whether most of what the file defines inside of the definition is missing in the draft."""
    inside = [each.name for each in found if place.own < each.own and each.last <= place.last]
    given = {each.name for each in mine}
    return sum(name not in given for name in inside) * 2 > len(inside)


def _wrapped(path: str, new: Sequence[str]) -> tuple[Definition, ...]:
    """The definitions of lines that are only valid inside of a class."""
    found = definitions(path, "class _ {\n" + "\n".join(new) + "\n}")
    inner = [each for each in found or () if each.name != "_"]
    return tuple(
        Definition(name=each.name, first=each.first - 1, own=each.own - 1, last=each.last - 1) for each in inner
    )


def _by_key(lines: Lines, new: Sequence[str]) -> tuple[int, int] | None:
    """The draft is made of blocks, lines with what lies below them, which the file has once and side by side."""
    spans: list[tuple[int, int]] = []
    for first, last in _blocks(new):
        span = _block_of(lines, new[first : last + 1])
        if span is None or (spans and any(line.strip() for line in lines.bodies[spans[-1][1] + 1 : span[0]])):
            return None
        if spans and span[0] <= spans[-1][1]:
            return None
        spans.append(span)
    return (spans[0][0], spans[-1][1]) if spans else None


def _blocks(new: Sequence[str]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    place = 0
    while place < len(new):
        if new[place].strip():
            found.append((place, _end(new, place)))
            place = found[-1][1]
        place += 1
    return found


def _block_of(lines: Lines, block: Sequence[str]) -> tuple[int, int] | None:
    key = key_of(block[0])
    if key is None or len(block) < 2:
        return None
    places = [index for index, line in enumerate(lines.bodies) if key_of(line) == key]
    if len(places) > 1:
        places = [index for index in places if lines.bodies[index].strip() == block[0].strip()]
    if len(places) != 1:
        return None
    last = _end(lines.bodies, places[0])
    closed = [bool(CONTINUED.match(row.strip())) for row in (block[-1], lines.bodies[last])]
    return None if last == places[0] or closed[0] != closed[1] else (places[0], last)


def _end(rows: Sequence[str], first: int) -> int:
    """The last line of the block that begins at a line: what lies deeper, and what closes or goes on at its depth."""
    depth, last, closed = depth_of(rows[first]), first, False
    for index in range(first + 1, len(rows)):
        row = rows[index].strip()
        if not row:
            continue
        inner = depth_of(rows[index]) > depth
        if not inner and (closed or depth_of(rows[index]) < depth or not CONTINUED.match(row)):
            break
        closed = not inner and not row.endswith(("{", "(", "[", ":"))
        last = index
    return last
