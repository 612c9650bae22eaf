"""A draft in the indentation of the file: shifted as a whole, at another width, or with tabs for spaces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from math import gcd
from typing import Final

from core.edits.indentation import Shift, deduce_shift, extract_indent, measure_depth
from core.edits.lazy.gaps import says_more
from core.edits.lazy.line_keys import parse_line_key
from core.edits.lazy.markers import is_marker, may_be_marker
from core.text.lines import TextLines

_SURE: Final = 3  # lines, or the head of a definition, that tell how a draft is shifted


def fit_indentation(new: Sequence[str], lines: TextLines) -> list[str]:
    """Return the draft in the indentation of the file, as far as the lines that both have once tell one rule."""
    there = Counter(line.strip() for line in lines.bodies)
    seen = Counter(line.strip() for line in new)
    places = {line.strip(): line for line in lines.bodies}
    pairs = [
        (line, places[line.strip()])
        for line in new
        if there[line.strip()] == 1 == seen[line.strip()] and says_more(line)
    ]
    sure = len(pairs) >= _SURE or any((parse_line_key(given) or "").startswith("definition ") for given, _ in pairs)
    is_indented = any(extract_indent(given) or extract_indent(old) for given, old in pairs)
    shift = deduce_shift(pairs, new) if sure and is_indented and not _begins_new(new, there) else None
    shifted = [shift(line) for line in new] if shift else list(new)
    steps = [_measure_indent_step(rows) for rows in (new, shifted, lines.bodies)]
    if shift is None or steps[1] % (steps[2] or 1) or steps[0] == steps[2] < steps[1]:
        restyle = _deduce_restyle(new, lines.bodies)
        return [restyle(line) for line in new] if restyle else list(new)
    return shifted


def _begins_new(new: Sequence[str], there: Container[str]) -> bool:
    """True if a piece begins with a line that the file does not have: it tells a depth of its own, and the lines below
    it may be meant to leave the block that they lie in."""
    filled = [line for line in new if line.strip()]
    marked = [is_marker(line) or may_be_marker(line) for line in filled]
    firsts = (line for line, mark, above in zip(filled, marked, [True, *marked], strict=False) if above and not mark)
    return any(line.strip() not in there for line in firsts)


def reindent_at(new: Sequence[str], head: str) -> list[str]:
    """Return the draft, its first line at the depth of a line of the file."""
    shift = deduce_shift([(new[0], head)], new)
    return [shift(line) for line in new] if shift else list(new)


def _measure_indent_step(lines: Sequence[str]) -> int:
    """The greatest width in columns that every indentation is a multiple of; 0 when nothing is indented."""
    return gcd(*(measure_depth(line) for line in lines if line.strip()))


def detect_indent_unit(lines: Sequence[str]) -> str:
    """One level of indentation as text, as far as the lines show it."""
    return "\t" if any(extract_indent(line)[:1] == "\t" for line in lines) else " " * (_measure_indent_step(lines) or 4)


def _deduce_restyle(new: Sequence[str], old: Sequence[str]) -> Shift | None:
    """A rule that writes tabs for spaces when the file has nothing else, or the other way round; None: none needed."""
    mine = "".join(extract_indent(line) for line in new if line.strip())
    theirs = "".join(extract_indent(line) for line in old if line.strip())
    if set(mine) == {" "} and set(theirs) == {"\t"}:
        width, unit = _measure_indent_step(new), "\t"
    elif set(mine) == {"\t"} and set(theirs) == {" "}:
        width, unit = 4, " " * _measure_indent_step(old)
    else:
        return None

    def restyle(line: str) -> str:
        levels, extra = divmod(measure_depth(line), width)
        return unit * levels + " " * extra + line.lstrip() if line.strip() else line

    return restyle if width > 1 and unit else None
