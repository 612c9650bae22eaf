"""The report on an edit for the model: the changed region, the kind of match, and new syntax errors.

Parsing is slow, so it runs in a thread after the edit, which is made without interruption.
"""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Sequence

from core.protocol.review import Hunk
from core.syntax.flaws import SyntaxFlaw, breaks_syntax, describe_flaw, find_flaws, find_new_flaws
from core.text.counting import count
from core.text.lines import normalise_endings, split_lines
from core.tools.base import Editor, FileEditDetail, ToolOutcome
from core.tools.builtin.editing.edit_targets import open_new_file, refuse_notebook

_CONTEXT = 3
_MAX_ROWS = 40
_MAX_FLAWS = 5
_UNREAD = "The parser can't read this; it may be older than the syntax. Leave it if you meant it:"
RUNGS = {
    "line_endings": "other line endings",
    "line_numbers": "line numbers copied from a listing",
    "trailing_space": "different white space at line ends",
    "indentation": "different indentation; the new text was indented to fit",
    "blank_lines": "other blank lines",
    "look_alikes": "look-alike characters",
    "spacing": "different spacing within lines",
    "uneven_indentation": "inconsistent indentation; check that of the new text",
    "line_ends": "the end of a line left out",
    "elided": "a middle part replaced by dots",
    "entities": "HTML entities resolved",
    "escapes": "backslash escapes removed",
    "trimmed": "different white space around it",
    "reflowed": "different line breaks and spacing",
    "other_case": "different capitals",
    "fuzzy": "a spelling mistake",
    "lost_space": "context that had lost its leading space",
}
SLIPS = {
    "quotes": "Curly quotes in the new lines became straight ones: the file has none.",
    "entities": "HTML entities in the new lines became plain characters: the file has none.",
    "numbers": "Line numbers were removed from the new lines.",
    "repeated": "Duplicate edits were made once.",
    "mode": "The file mode was not changed: that takes a command.",
}


def describe_match(rungs: Sequence[str]) -> str:
    """Return what to check if a text did not match exactly; "" otherwise."""
    lenient = [f"{number}: {RUNGS[rung]}" for number, rung in enumerate(rungs, start=1) if rung in RUNGS]
    if not lenient:
        return ""
    if len(rungs) == 1:
        return f" Matched with {RUNGS[rungs[0]]}."
    overflow = f"; and {len(lenient) - _MAX_ROWS} more" if len(lenient) > _MAX_ROWS else ""
    return f" Not all matched exactly ({'; '.join(lenient[:_MAX_ROWS])}{overflow})."


def describe_slips(slips: Sequence[str]) -> str:
    """Return what was corrected or skipped in an edit; "" for nothing."""
    return "".join(f" {SLIPS[slip]}" for slip in dict.fromkeys(slips))


async def describe_edit(path: str, before: str, after: str, detail: FileEditDetail, *, description: str) -> ToolOutcome:
    """Return the result for a file whose text became `after`. `description` follows the file's name."""
    rows = [f"Edited {path}: {description}", *await to_thread(_format_result, path, before, after, detail.hunks)]
    return ToolOutcome(content="\n".join(rows), summary=f"+{detail.added} -{detail.removed}", detail=detail)


async def propose_file(editor: Editor, path: str, text: str) -> ToolOutcome:
    """Write a new file, and return the result for it."""
    refuse_notebook(path)
    return await describe_creation(path, editor.write(path, open_new_file(editor, path).encode(text)), text)


async def describe_creation(path: str, detail: FileEditDetail, text: str) -> ToolOutcome:
    """Return the result for a new file."""
    rows = [f"Created {path}: {count('line', detail.added)}.", *await to_thread(find_new_faults, path, "", text)]
    return ToolOutcome(content="\n".join(rows), summary=f"+{detail.added} new", detail=detail)


def _format_result(path: str, before: str, after: str, hunks: Sequence[Hunk]) -> list[str]:
    return [*format_regions(hunks, after), *find_new_faults(path, before, after)]


def find_new_faults(path: str, before: str, after: str) -> list[str]:
    """Return lines about new syntax errors, and whether they are certain; none for languages that can't be parsed."""
    new_flaws = find_new_flaws(path, before, after)
    if not new_flaws:
        return []
    overflow = [f"[... {len(new_flaws) - _MAX_FLAWS} more]"] if len(new_flaws) > _MAX_FLAWS else []
    return [
        _build_fault_head(path, before, after, new_flaws),
        *(f"  {describe_flaw(flaw)}" for flaw in new_flaws[:_MAX_FLAWS]),
        *overflow,
    ]


def _build_fault_head(path: str, before: str, after: str, flaws: Sequence[SyntaxFlaw]) -> str:
    if not breaks_syntax(path, before, after, flaws):
        return _UNREAD
    has_parsed = before and not find_flaws(path, before, limit=1)
    return "This edit broke the syntax of the file: it parsed before." if has_parsed else "New syntax errors:"


def format_regions(hunks: Sequence[Hunk], after: str) -> list[str]:
    """Return every changed region as it is now, with line numbers and context lines."""
    lines = split_lines(after).bodies
    rows: list[str] = []
    last_line = 0
    for first, last in _find_spans(hunks):
        start = max(last_line + 1, first - _CONTEXT, 1)
        last_line = min(len(lines), max(last, first - 1) + _CONTEXT)
        if rows and start > 1 and start <= last_line:
            rows.append("   ...")
        rows += [f"{number:6}|{normalise_endings(lines[number - 1])[:300]}" for number in range(start, last_line + 1)]
    if len(rows) <= _MAX_ROWS:
        return rows
    half = _MAX_ROWS // 2
    return [*rows[:half], f"[... {len(rows) - 2 * half} lines ...]", *rows[-half:]]


def _find_spans(hunks: Sequence[Hunk]) -> list[tuple[int, int]]:
    """Return (first, last) line of every changed region in the current text; close ones are merged."""
    spans: list[tuple[int, int]] = []
    for hunk in hunks:
        first, last = hunk.new_start, hunk.new_start + hunk.new_lines - 1
        if spans and first - spans[-1][1] <= 2 * _CONTEXT + 1:
            first = spans.pop()[0]
        spans.append((first, last))
    return spans
