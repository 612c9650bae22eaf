"""The line plan: `[{start_line, end_line, replacement}]`, applied from the bottom to the top as one batch.

Lines are 1-indexed and inclusive, and refer to the file before the edit. An empty replacement deletes the lines and
leaves no empty one. A range without an end inserts before its start; the line after the last one appends. The whole
plan is checked before any change: overlapping, inverted and outlying ranges are refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from msgspec import Struct

from core.edits.errors import EditError
from core.edits.matching.line_edit import MatchedBlock, replace_block
from core.patterns import compile_lazily
from core.records import parse_json, parse_json_part
from core.text.lines import TextLines, split_closed, split_lines

_NUMBER = compile_lazily(r"\s*[+-]?\d+\s*")
_LISTS: Final = ("edits", "plan", "edit_operations", "operations", "changes")
_STARTS: Final = ("start_line", "startLine", "start")
_ENDS: Final = ("end_line", "endLine", "end")
_TEXTS: Final = ("replacement", "new_text", "content")
_HINT = (
    "Give a JSON list of {start_line, end_line, replacement}; lines are 1-indexed and inclusive. Nothing was changed."
)
_FENCED = compile_lazily(r"```[\w-]*[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL)
_TEXT_OR_COMMA = compile_lazily(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', re.DOTALL)
_BEGINS = compile_lazily(r"[\[{]")
_DECODER: Final = json.JSONDecoder(strict=False)
_MOST: Final = 200  # positions where a plan may begin


class LineRange(Struct, frozen=True, kw_only=True):
    """Lines to replace. `end_line` None: `replacement` is inserted before `start_line`."""

    start_line: int
    end_line: int | None
    replacement: str


def parse_line_plan(content: str) -> tuple[LineRange, ...]:
    """Parse the ranges of a JSON list, which may be in a fence or in prose. Raises `EditError`."""
    try:
        entries = decode_plan(content)
    except (ValueError, RecursionError) as problem:
        raise EditError(f"The line plan is not valid JSON: {problem}.", hint=_HINT) from None
    if isinstance(entries, dict):
        entries = next((entries[name] for name in _LISTS if isinstance(entries.get(name), list)), [entries])
    if not isinstance(entries, list):
        raise EditError("The line plan is not a list.", hint=_HINT)
    return tuple(_parse_range(entry, number) for number, entry in enumerate(entries, start=1))


def _parse_range(entry: Any, number: int) -> LineRange:
    if not isinstance(entry, dict):
        raise EditError(f"Edit {number} of the line plan is not an object.", hint=_HINT)
    start, end, text = (
        next((entry[name] for name in names if name in entry), None) for names in (_STARTS, _ENDS, _TEXTS)
    )
    if not isinstance(text, str):
        raise EditError(f"Edit {number}: replacement is {text!r}, not a text.", hint=_HINT)
    first = _parse_whole(start, "start_line", number)
    last = None if end is None else _parse_whole(end, "end_line", number)
    return LineRange(start_line=first, end_line=last, replacement=text)


def _parse_whole(value: Any, name: str, number: int) -> int:
    """Parse a whole number, also from a text or a float without a fraction."""
    if (isinstance(value, str) and _NUMBER.fullmatch(value)) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise EditError(f"Edit {number}: {name} is {value!r}, not a whole number.", hint=_HINT)
    return value


def apply_line_plan(text: str, plan: Sequence[LineRange]) -> str:
    """Replace every range, or raise `EditError` and change nothing. The order of `plan` does not matter."""
    lines = split_lines(text)
    once = _deduplicate(plan, len(lines))
    sorted_ranges = sorted(
        once, key=lambda line_range: (line_range.start_line, -1 if line_range.end_line is None else line_range.end_line)
    )
    for line_range in sorted_ranges:
        _check_range(line_range, len(lines))
    for first, second in pairwise(sorted_ranges):
        if first.end_line is not None and second.start_line <= first.end_line:
            raise EditError(f"The ranges {_format_range(first)} and {_format_range(second)} overlap.", hint=_HINT)
        if first.end_line is None and second == first:
            raise EditError(f"Two texts are to be inserted before line {first.start_line}.", hint=_HINT)
    for line_range in reversed(sorted_ranges):
        text = _apply_range(text, lines, line_range)
    return text


def _deduplicate(plan: Sequence[LineRange], count: int) -> list[LineRange]:
    """Return the ranges without repetitions; a range of the line after the last one becomes an insertion there."""
    once: list[LineRange] = []
    for line_range in plan:
        appends = bool(count) and line_range.start_line == count + 1 == line_range.end_line
        range_ = (
            LineRange(start_line=count + 1, end_line=None, replacement=line_range.replacement)
            if appends
            else line_range
        )
        if range_.end_line is None or range_ not in once:
            once.append(range_)
    return once


def _check_range(line_range: LineRange, count: int) -> None:
    if line_range.start_line < 1:
        raise EditError(f"The range {_format_range(line_range)} begins before line 1.", hint=_HINT)
    last = count if line_range.end_line is not None and count else count + 1
    if line_range.start_line > last or (line_range.end_line or 0) > max(count, 1):
        raise EditError(
            f"The range {_format_range(line_range)} is outside the file, which has {count} lines.", hint=_HINT
        )
    if line_range.end_line is not None and line_range.end_line < line_range.start_line:
        raise EditError(f"The range {_format_range(line_range)} ends before it begins.", hint=_HINT)


def _format_range(line_range: LineRange) -> str:
    return f"{line_range.start_line}-{line_range.start_line if line_range.end_line is None else line_range.end_line}"


def _apply_range(text: str, lines: TextLines, line_range: LineRange) -> str:
    first = line_range.start_line - 1
    if line_range.end_line is None or not lines.bodies:
        return _insert_lines(text, lines, first, line_range.replacement)
    last = line_range.end_line - 1
    new_lines = split_closed(line_range.replacement)[0] if line_range.replacement else []
    block = MatchedBlock(first, last, list(range(first, last + 1)))
    return text[: lines.starts[first]] + replace_block(lines, block, new_lines) + text[lines.find_end(last) :]


def _insert_lines(text: str, lines: TextLines, index: int, replacement: str) -> str:
    if not replacement:
        return text
    if not lines.bodies:
        return replacement
    end = lines.find_dominant_ending()
    new = end.join(split_closed(replacement)[0])
    if index < len(lines):
        start = lines.starts[index]
        return text[:start] + new + end + text[start:]
    has_final_newline = bool(lines.ends[-1])
    return text + new + end if has_final_newline else text + end + new


def find_unplanned_changes(before: str, after: str, plan: Sequence[LineRange]) -> list[int]:
    """Return the lines (1-indexed, before the edit) that changed although no range of the plan covers them."""
    old, new = split_lines(before), split_lines(after)
    wrong, shift = [], 0
    planned_numbers = {
        number
        for line_range in plan
        for number in range(line_range.start_line, (line_range.end_line or line_range.start_line - 1) + 1)
    }
    sizes = [
        (line_range, len(split_closed(line_range.replacement)[0]) if line_range.replacement else 0)
        for line_range in plan
    ]
    insertion_sizes = {line_range.start_line: size for line_range, size in sizes if line_range.end_line is None}
    replacement_sizes = {line_range.start_line: size for line_range, size in sizes if line_range.end_line is not None}
    for number in range(1, len(old) + 1):
        shift += insertion_sizes.get(number, 0)
        if number in planned_numbers:
            shift += replacement_sizes.get(number, 0) - 1
            continue
        index = number - 1 + shift
        if not 0 <= index < len(new) or new.bodies[index] != old.bodies[number - 1]:
            wrong.append(number)
    return wrong


def decode_plan(content: str) -> Any:
    """Decode the one plan of a text: a list of objects, or an object. Raises `ValueError` and `RecursionError`."""
    text = content.strip().removeprefix("\ufeff").strip()
    try:
        return _decode_lenient(text)
    except ValueError as problem:
        plans = [plan for block in _FENCED.findall(text) for plan in _find_plans(block)] or _find_plans(text)
        if len(plans) > 1:
            raise ValueError("there is more than one plan in the text") from None
        if not plans:
            raise problem from None
        return plans[0]


def _decode_lenient(text: str) -> Any:
    try:
        return parse_json(text, strict=False)
    except ValueError:
        return parse_json(_TEXT_OR_COMMA.sub(lambda match: match[1] or "", text), strict=False)


def _find_plans(text: str) -> list[Any]:
    """Find every plan that begins somewhere in a text, without those nested in others."""
    plain = _TEXT_OR_COMMA.sub(lambda match: match[1] or "", text)
    plans, position = [], 0
    for _ in range(_MOST):
        begin = _BEGINS.search(plain, position)
        if begin is None:
            break
        try:
            value, position = parse_json_part(_DECODER, plain, begin.start())
        except ValueError:
            position = begin.end()
            continue
        entries = value if isinstance(value, list) else [value]
        if entries and all(isinstance(entry, dict) for entry in entries):
            plans.append(value)
    return plans
