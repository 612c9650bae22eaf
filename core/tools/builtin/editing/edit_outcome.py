"""What a model is told of an edit: the changed region as it is now, how it was matched, and what it broke.

Parsing takes its time, so it is done in a thread: after the edit, which is made in one go.
"""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Sequence
from difflib import SequenceMatcher

from core.edits.breakage import describe_flaw, find_new_flaws
from core.edits.formats.line_plan import find_changed_span, split_whole_lines
from core.edits.syntax import find_flaws
from core.text.lines import normalise_endings, split_lines
from core.tools.base import FileEditDetail, ToolOutcome

_CONTEXT = 3
_MAX_ROWS = 40
_MAX_FLAWS = 5
_COMPARED = 1_500  # lines of a region within which its parts are told apart
RUNGS = {
    "line_endings": "other line endings",
    "line_numbers": "line numbers copied from a listing",
    "trailing_space": "other white space at line ends",
    "indentation": "another indentation; the new text was indented to fit",
    "blank_lines": "other blank lines",
    "look_alikes": "look-alike characters",
    "spacing": "other spacing within lines",
    "uneven_indentation": "an indentation that differs from line to line; check that of the new text",
    "line_ends": "the end of a line left out",
    "elided": "a middle left out with dots",
    "entities": "HTML entities resolved",
    "escapes": "backslash escapes taken off",
    "trimmed": "other white space around it",
    "reflowed": "other line breaks and spacing",
    "other_case": "other capitals",
    "fuzzy": "a misspelt word",
}


def describe_match(rungs: Sequence[str]) -> str:
    """What to check, where something was not exactly as the model had written it; "" else."""
    lenient = [f"{number}: {RUNGS[rung]}" for number, rung in enumerate(rungs, start=1) if rung in RUNGS]
    if not lenient:
        return ""
    if len(rungs) == 1:
        return f" Matched with {RUNGS[rungs[0]]}."
    more = f"; and {len(lenient) - _MAX_ROWS} more" if len(lenient) > _MAX_ROWS else ""
    return f" Not all matched exactly ({'; '.join(lenient[:_MAX_ROWS])}{more})."


async def describe_edit(path: str, before: str, after: str, detail: FileEditDetail, *, how: str) -> ToolOutcome:
    """The answer for a file whose text became `after`. `how` is said after the file's name."""
    rows = [f"Edited {path}: {how}", *await to_thread(_format_result, path, before, after)]
    return ToolOutcome(content="\n".join(rows), summary=f"+{detail.added} -{detail.removed}", detail=detail)


async def describe_creation(path: str, detail: FileEditDetail, text: str) -> ToolOutcome:
    """The answer for a new file."""
    rows = [f"Created {path}: {detail.added} lines.", *await to_thread(find_new_faults, path, "", text)]
    return ToolOutcome(content="\n".join(rows), summary=f"+{detail.added} new", detail=detail)


def _format_result(path: str, before: str, after: str) -> list[str]:
    return [*format_regions(before, after), *find_new_faults(path, before, after)]


def find_new_faults(path: str, before: str, after: str) -> list[str]:
    """Lines that say what does not parse now and did before; none when nothing of that kind is known."""
    found = find_new_flaws(path, before, after)
    if not found:
        return []
    parsed = before and not find_flaws(path, before, limit=1)
    head = "This edit broke the syntax of the file: it parsed before." if parsed else "New syntax errors:"
    more = [f"[... {len(found) - _MAX_FLAWS} more]"] if len(found) > _MAX_FLAWS else []
    return [head, *(f"  {describe_flaw(flaw)}" for flaw in found[:_MAX_FLAWS]), *more]


def format_regions(before: str, after: str) -> list[str]:
    """Every changed place as it is now, with line numbers and the lines around it."""
    lines = split_lines(after).bodies
    rows: list[str] = []
    shown = 0
    for first, last in _find_spans(before, after):
        start = max(shown + 1, first - _CONTEXT, 1)
        shown = min(len(lines), max(last, first - 1) + _CONTEXT)
        if rows and start > 1 and start <= shown:
            rows.append("   ...")
        rows += [f"{number:6}|{normalise_endings(lines[number - 1])[:300]}" for number in range(start, shown + 1)]
    if len(rows) <= _MAX_ROWS:
        return rows
    half = _MAX_ROWS // 2
    return [*rows[:half], f"[... {len(rows) - 2 * half} lines ...]", *rows[-half:]]


def _find_spans(before: str, after: str) -> Sequence[tuple[int, int]]:
    """(first, last) line of each changed place, in the text as it is now; those close together are one."""
    first, old_last, last = find_changed_span(before, after)
    if max(old_last, last) - first > _COMPARED:
        return [(first, last)]
    old = split_whole_lines(before)[first - 1 : old_last]
    new = split_whole_lines(after)[first - 1 : last]
    found: list[tuple[int, int]] = []
    for tag, _, _, start, stop in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        one, two = start + first, stop + first - 1
        if found and one - found[-1][1] <= 2 * _CONTEXT + 1:
            found[-1] = (found[-1][0], two)
        else:
            found.append((one, two))
    return found
