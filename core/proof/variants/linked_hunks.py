"""Hunks that only work together: one defines a name, and the other uses it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from core.patterns import compile_lazily

_NAME: Final = compile_lazily(r"[^\W\d]\w*")
_DEFINITION: Final = compile_lazily(
    r"^\s*(?:export\s+)?(?:default\s+)?(?:async\s+)?(?:pub(?:\([^)]*\))?\s+)?"
    r"(?:def|class|function|fn|func|const|let|var|type|struct|enum|interface)\s+([^\W\d]\w*)"
    r"|^\s*([^\W\d]\w*)\s*(?::[^=]+)?=(?!=)|^\s*(?:from\s+\S+\s+)?import\s+(.+)$|^\s*([^\W\d]\w*)\s*[:=][^=]*,?$"
)


# Errors of Python, JavaScript, Go and Rust that name what is missing.
_MISSING: Final = compile_lazily(
    r"(?:name|variable|import name|no attribute|unexpected keyword argument|required positional argument:"
    r"|required keyword-only argument:|cannot find \w+) ['\"`](\w+)['\"`]"
    r"|No module named ['\"]?(?:\w+\.)*(\w+)|Cannot find module ['\"](?:[^'\"]*/)?([\w-]+)"
    r"|\b(?:[\w$]+\.)*([\w$]+) is not (?:defined|a function|a constructor)|\bundefined: (?:\w+\.)*(\w+)"
    r"|export named ['\"](\w+)"
)
_TOKEN: Final = compile_lazily(r"\w+|[^\w\s]")
_SMALL_EDIT: Final = 2  # tokens


class HunkLines(NamedTuple):
    """The lines that a hunk removes and adds."""

    old: Sequence[str]
    new: Sequence[str]


def find_group(place: tuple[str, str], hunks: Mapping[tuple[str, str], HunkLines]) -> tuple[tuple[str, str], ...]:
    """Return the hunks that use a name which the hunk at `place` introduces, and so on, with that hunk first. What it
    introduces inside of a function is a name in its own file alone."""
    group, waiting = dict.fromkeys([place]), [place]
    while waiting:
        current = waiting.pop()
        own, shared = _list_introduced(hunks[current])
        for other, lines in hunks.items():
            names = own | shared if other[0] == current[0] else shared
            if other not in group and not names.isdisjoint(_list_names(lines.new)):
                group[other] = None
                waiting.append(other)
    return tuple(group)


def find_missing_name(message: str) -> str:
    """Return the name that an error says is missing, "" = it names none."""
    match = _MISSING.search(message)
    return next((name for name in match.groups() if name), "") if match is not None else ""


def find_users(name: str, hunks: Mapping[tuple[str, str], HunkLines]) -> list[tuple[str, str]]:
    """Return the hunks that bring the name, or more uses of it."""
    if not name:
        return []
    return [place for place, lines in hunks.items() if _count(name, lines.new) > _count(name, lines.old)]


def _count(name: str, lines: Iterable[str]) -> int:
    return sum(_NAME.findall(line).count(name) for line in lines)


def is_small_edit(lines: HunkLines) -> bool:
    """Return True if a few tokens make the difference, such as a bound or a number: that nothing notices it is telling,
    whatever else of the line is checked."""
    old, new = (Counter(_TOKEN.findall("\n".join(side))) for side in lines)
    return bool(lines.old) and max((old - new).total(), (new - old).total()) <= _SMALL_EDIT


def _list_introduced(lines: HunkLines) -> tuple[set[str], set[str]]:
    """Return the names that a hunk defines and that did not stand in its old lines: the local ones, and the others."""
    local, shared = set[str](), set[str]()
    for line in lines.new:
        if (match := _DEFINITION.match(line)) is not None:
            names = {name for part in match.groups() if part for name in _NAME.findall(part)}
            (local if line[:1].isspace() and not match[1] else shared).update(names)
    known = _list_names(lines.old) | {"import", "as", "from"}
    return local - known, shared - known


def _list_names(lines: Iterable[str]) -> set[str]:
    return {name for line in lines for name in _NAME.findall(line)}
