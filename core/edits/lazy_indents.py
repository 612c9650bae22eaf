"""A draft in the indentation of the file: shifted as a whole, at another width, or with tabs for spaces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import gcd

from core.edits.lazy_matches import depth_of
from core.edits.lines import Lines
from core.edits.reindent import Shift, deduce_shift, indent_of


def fitted(new: Sequence[str], lines: Lines) -> list[str]:
    """The draft in the indentation of the file, as far as the lines that both have once tell one rule."""
    there = Counter(line.strip() for line in lines.bodies)
    seen = Counter(line.strip() for line in new)
    places = {line.strip(): line for line in lines.bodies}
    pairs = [
        (line, places[line.strip()])
        for line in new
        if there[line.strip()] == 1 == seen[line.strip()] and any(letter.isalnum() for letter in line)
    ]
    shift = deduce_shift(pairs, new) if any(indent_of(given) or indent_of(old) for given, old in pairs) else None
    shifted = [shift(line) for line in new] if shift else list(new)
    if shift is None or _steps_of(shifted) % (_steps_of(lines.bodies) or 1):
        restyle = _restyled(new, lines.bodies)
        return [restyle(line) for line in new] if restyle else list(new)
    return shifted


def reindented(new: Sequence[str], head: str) -> list[str]:
    """The draft, its first line at the depth of a line of the file."""
    shift = deduce_shift([(new[0], head)], new)
    return [shift(line) for line in new] if shift else list(new)


def _steps_of(lines: Sequence[str]) -> int:
    """The greatest width that every indentation is a multiple of; 0 when nothing is indented."""
    return gcd(*(depth_of(line) for line in lines if line.strip()))


def level_of(lines: Sequence[str]) -> str:
    """One level of indentation, as far as the lines show it."""
    return "\t" if any(indent_of(line)[:1] == "\t" for line in lines) else " " * (_steps_of(lines) or 4)


def _restyled(new: Sequence[str], old: Sequence[str]) -> Shift | None:
    """Tabs for a draft in spaces when the file has nothing else, or the other way round."""
    mine = "".join(indent_of(line) for line in new if line.strip())
    theirs = "".join(indent_of(line) for line in old if line.strip())
    if set(mine) == {" "} and set(theirs) == {"\t"}:
        width, unit = _steps_of(new), "\t"
    elif set(mine) == {"\t"} and set(theirs) == {" "}:
        width, unit = 4, " " * _steps_of(old)
    else:
        return None

    def restyle(line: str) -> str:
        levels, extra = divmod(depth_of(line), width)
        return unit * levels + " " * extra + line.lstrip() if line.strip() else line

    return restyle if width > 1 and unit else None
