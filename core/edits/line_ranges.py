"""The line plan: `[{start_line, end_line, replacement}]`, applied from the bottom to the top as one batch.

Lines are 1-indexed and inclusive, as they stand in the file before the edit. An empty replacement deletes the lines
and leaves no empty one. A range without an end inserts before its start; the line after the last one appends. The whole
plan is checked before anything is changed: overlapping, inverted and outlying ranges are refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from msgspec import Struct

from core.edits.candidates import EditError
from core.edits.line_edit import as_lines
from core.edits.lines import Lines, split_lines
from core.edits.plan_json import decoded_list
from core.edits.transplant import Block, placed_lines

_NUMBER = re.compile(r"\s*[+-]?\d+\s*")
_LISTS: Final = ("edits", "plan", "edit_operations", "operations", "changes")
_STARTS: Final = ("start_line", "startLine", "start")
_ENDS: Final = ("end_line", "endLine", "end")
_TEXTS: Final = ("replacement", "new_text", "content")
_HINT = (
    "Give a JSON list of {start_line, end_line, replacement}; lines are 1-indexed and inclusive. Nothing was changed."
)


class LineRange(Struct, frozen=True, kw_only=True):
    """`end_line` None: `replacement` is inserted before `start_line`."""

    start_line: int
    end_line: int | None
    replacement: str


def parse_plan(content: str) -> tuple[LineRange, ...]:
    """The ranges of a JSON list, which may stand in a fence or in prose. Raises `EditError`."""
    try:
        entries = decoded_list(content)
    except (ValueError, RecursionError) as problem:
        raise EditError(f"The line plan is not valid JSON: {problem}.", hint=_HINT) from None
    if isinstance(entries, dict):
        entries = next((entries[name] for name in _LISTS if isinstance(entries.get(name), list)), [entries])
    if not isinstance(entries, list):
        raise EditError("The line plan is not a list.", hint=_HINT)
    return tuple(_range(entry, number) for number, entry in enumerate(entries, start=1))


def _range(entry: Any, number: int) -> LineRange:
    if not isinstance(entry, dict):
        raise EditError(f"Edit {number} of the line plan is not an object.", hint=_HINT)
    start, end, text = (_named(entry, names) for names in (_STARTS, _ENDS, _TEXTS))
    if not isinstance(text, str):
        raise EditError(f"Edit {number}: replacement is {text!r}, not a text.", hint=_HINT)
    first = _whole(start, "start_line", number)
    last = None if end is None else _whole(end, "end_line", number)
    return LineRange(start_line=first, end_line=last, replacement=text)


def _named(entry: dict[str, Any], names: Sequence[str]) -> Any:
    return next((entry[name] for name in names if name in entry), None)


def _whole(value: Any, name: str, number: int) -> int:
    """A whole number, also as a text or with a zero behind the point."""
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise EditError(f"Edit {number}: {name} is {value!r}, not a whole number.", hint=_HINT)
    return value


def apply_plan(text: str, plan: Sequence[LineRange]) -> str:
    """The text with every range replaced, or `EditError` and no change. The order of `plan` does not matter."""
    lines = split_lines(text)
    ordered = sorted(
        _told_once(plan, len(lines)), key=lambda each: (each.start_line, -1 if each.end_line is None else each.end_line)
    )
    for each in ordered:
        _check(each, len(lines))
    for first, second in pairwise(ordered):
        if first.end_line is not None and second.start_line <= first.end_line:
            raise EditError(f"The ranges {_told(first)} and {_told(second)} overlap.", hint=_HINT)
        if first.end_line is None and second == first:
            raise EditError(f"Two texts are to be inserted before line {first.start_line}.", hint=_HINT)
    for each in reversed(ordered):
        text = _applied(text, lines, each)
    return text


def _told_once(plan: Sequence[LineRange], count: int) -> list[LineRange]:
    """The ranges, one that is told twice once, and that of the line after the last one as what is added there."""
    once: list[LineRange] = []
    for each in plan:
        appends = bool(count) and each.start_line == count + 1 == each.end_line
        range_ = LineRange(start_line=count + 1, end_line=None, replacement=each.replacement) if appends else each
        if range_.end_line is None or range_ not in once:
            once.append(range_)
    return once


def _check(each: LineRange, count: int) -> None:
    if each.start_line < 1:
        raise EditError(f"The range {_told(each)} begins before line 1.", hint=_HINT)
    last = count if each.end_line is not None and count else count + 1
    if each.start_line > last or (each.end_line or 0) > max(count, 1):
        raise EditError(f"The range {_told(each)} is outside of the file, which has {count} lines.", hint=_HINT)
    if each.end_line is not None and each.end_line < each.start_line:
        raise EditError(f"The range {_told(each)} ends before it begins.", hint=_HINT)


def _told(each: LineRange) -> str:
    return f"{each.start_line}-{each.start_line if each.end_line is None else each.end_line}"


def _applied(text: str, lines: Lines, each: LineRange) -> str:
    first = each.start_line - 1
    if each.end_line is None or not lines.bodies:
        return _inserted(text, lines, first, each.replacement)
    last = each.end_line - 1
    wanted = as_lines(each.replacement)[0] if each.replacement else []
    block = Block(first, last, list(range(first, last + 1)))
    return text[: lines.starts[first]] + placed_lines(lines, block, wanted) + text[lines.stop(last) :]


def _inserted(text: str, lines: Lines, place: int, replacement: str) -> str:
    if not replacement:
        return text
    if not lines.bodies:
        return replacement
    end = lines.dominant()
    new = end.join(as_lines(replacement)[0])
    if place < len(lines):
        start = lines.starts[place]
        return text[:start] + new + end + text[start:]
    closed = bool(lines.ends[-1])
    return text + new + end if closed else text + end + new


def numbered(text: str, *, first: int = 1) -> str:
    """The text as the edit agent reads it: every line behind its number."""
    return "\n".join(f"{number:6}|{line}" for number, line in enumerate(split_lines(text).bodies, start=first))


def strayed(before: str, after: str, plan: Sequence[LineRange]) -> list[int]:
    """The lines (1-indexed, before the edit) that changed although no range of the plan names them."""
    old, new = split_lines(before), split_lines(after)
    wrong, shift = [], 0
    named = {number for each in plan for number in range(each.start_line, (each.end_line or each.start_line - 1) + 1)}
    inserts = {each.start_line: each for each in plan if each.end_line is None}
    grown = {
        each.start_line: len(as_lines(each.replacement)[0]) if each.replacement else 0
        for each in plan
        if each.end_line is not None
    }
    for number in range(1, len(old) + 1):
        if number in inserts and inserts[number].replacement:
            shift += len(as_lines(inserts[number].replacement)[0])
        if number in named:
            shift += grown.get(number, 0) - 1
            continue
        place = number - 1 + shift
        if not 0 <= place < len(new) or new.bodies[place] != old.bodies[number - 1]:
            wrong.append(number)
    return wrong


def changed_span(before: str, after: str) -> tuple[int, int, int]:
    """(first, last, last afterwards): the smallest region of lines (1-indexed, inclusive) that holds every change."""
    old, new = whole_lines(before), whole_lines(after)
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return head + 1, len(old) - tail, len(new) - tail


def whole_lines(text: str) -> list[str]:
    """The lines of a text with their endings."""
    lines = split_lines(text)
    return [body + end for body, end in zip(lines.bodies, lines.ends, strict=True)]
