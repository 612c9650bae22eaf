"""What a model is told of an edit: the changed region as it is now, how it was matched, and what it broke.

Parsing takes its time, so it is done in a thread: after the edit, which is made in one go.
"""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Sequence
from difflib import SequenceMatcher

from core.edits.breakage import new_flaws, told
from core.edits.line_ranges import changed_span, whole_lines
from core.edits.lines import split_lines, to_lf
from core.edits.syntax import flaws
from core.tools.base import FileEditDetail, Outcome

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


def matched(rungs: Sequence[str]) -> str:
    """What to check, where something was not exactly as the model had written it; "" else."""
    lenient = [f"{number}: {RUNGS[rung]}" for number, rung in enumerate(rungs, start=1) if rung in RUNGS]
    if not lenient:
        return ""
    if len(rungs) == 1:
        return f" Matched with {RUNGS[rungs[0]]}."
    more = f"; and {len(lenient) - _MAX_ROWS} more" if len(lenient) > _MAX_ROWS else ""
    return f" Not all matched exactly ({'; '.join(lenient[:_MAX_ROWS])}{more})."


async def edited(path: str, before: str, after: str, detail: FileEditDetail, *, how: str) -> Outcome:
    """The answer for a file whose text became `after`. `how` is said after the file's name."""
    rows = [f"Edited {path}: {how}", *await to_thread(_shown, path, before, after)]
    return Outcome(content="\n".join(rows), summary=f"+{detail.added} -{detail.removed}", detail=detail)


async def created(path: str, detail: FileEditDetail, text: str) -> Outcome:
    """The answer for a new file."""
    rows = [f"Created {path}: {detail.added} lines.", *await to_thread(faults, path, "", text)]
    return Outcome(content="\n".join(rows), summary=f"+{detail.added} new", detail=detail)


def _shown(path: str, before: str, after: str) -> list[str]:
    return [*regions(before, after), *faults(path, before, after)]


def faults(path: str, before: str, after: str) -> list[str]:
    """Lines that say what does not parse now and did before; none when nothing of that kind is known."""
    found = new_flaws(path, before, after)
    if not found:
        return []
    parsed = before and not flaws(path, before, limit=1)
    head = "This edit broke the syntax of the file: it parsed before." if parsed else "New syntax errors:"
    more = [f"[... {len(found) - _MAX_FLAWS} more]"] if len(found) > _MAX_FLAWS else []
    return [head, *(f"  {told(flaw)}" for flaw in found[:_MAX_FLAWS]), *more]


def regions(before: str, after: str) -> list[str]:
    """Every changed place as it is now, with line numbers and the lines around it."""
    lines = split_lines(after).bodies
    rows: list[str] = []
    shown = 0
    for first, last in _spans(before, after):
        start = max(shown + 1, first - _CONTEXT, 1)
        shown = min(len(lines), max(last, first - 1) + _CONTEXT)
        if rows and start > 1 and start <= shown:
            rows.append("   ...")
        rows += [f"{number:6}|{to_lf(lines[number - 1])[:300]}" for number in range(start, shown + 1)]
    if len(rows) <= _MAX_ROWS:
        return rows
    half = _MAX_ROWS // 2
    return [*rows[:half], f"[... {len(rows) - 2 * half} lines ...]", *rows[-half:]]


def _spans(before: str, after: str) -> Sequence[tuple[int, int]]:
    """(first, last) line of each changed place, in the text as it is now; those close together are one."""
    first, old_last, last = changed_span(before, after)
    if max(old_last, last) - first > _COMPARED:
        return [(first, last)]
    old = whole_lines(before)[first - 1 : old_last]
    new = whole_lines(after)[first - 1 : last]
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
