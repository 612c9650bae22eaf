"""Hunks that have no line to be found by: they only add lines, or all that they find is blank.

Such a hunk is placed where nothing else can be meant: by its anchor, by its line number, at the end of the file, or
where the file has the only blank lines of that number. Otherwise it is refused; it is never done without an effect.
"""

from __future__ import annotations

from collections.abc import Sequence

from core.edits.errors import EditError
from core.edits.matching.failures import build_ambiguity_error
from core.edits.matching.search_text import SearchText
from core.edits.patches.patch_anchors import Scope
from core.edits.patches.patch_records import PatchHunk, Row
from core.text.lines import Splice, TextLines, apply_splices

_COMPARED = 50
_HINT = "Give a line of the file before or after the change. Nothing was changed."


def place_blank_hunk(search_text: SearchText, hunk: PatchHunk, rows: Sequence[Row], scopes: Sequence[Scope]) -> Splice:
    """Find what a hunk changes whose old lines are blank, or none. Raises `EditError` where that can't be told."""
    lines = search_text.lines
    size = sum(sign != "+" for sign, _ in rows)
    if not size:
        return _build_insertion(search_text, rows, _find_gap(lines, hunk, scopes))
    starts = [
        start
        for start in range(len(lines) - size + 1)
        if not any(body.strip() for body in lines.bodies[start : start + size])
    ]
    preferred_starts = [hunk.line - 1] if hunk.line is not None else [scope.line + 1 for scope in scopes]
    if hunk.is_at_end:
        preferred_starts = [start for start in starts if not any(body.strip() for body in lines.bodies[start:])][:1]
    candidate_starts = [start for start in starts if start in preferred_starts] or (starts if not scopes else [])
    if not candidate_starts:
        raise EditError("The hunk only names blank lines, and there are none at its place.", hint=_HINT)
    splices = [_build_splice(lines, rows, start) for start in candidate_starts[:_COMPARED]]
    results = {apply_splices(search_text.text, [splice]) for splice in splices}
    if len(results) > 1 or len(candidate_starts) > _COMPARED:
        raise build_ambiguity_error(search_text, [start + 1 for start in candidate_starts], "exact")
    return splices[0]


def _find_gap(lines: TextLines, hunk: PatchHunk, scopes: Sequence[Scope]) -> int:
    """Return the line before which a hunk that only adds lines puts them."""
    if scopes:
        if len(scopes) > 1:
            places = ", ".join(str(scope.line + 1) for scope in scopes[:20])
            raise EditError(f"The line that @@ names stands at several places: lines {places}.", hint=_HINT)
        return scopes[0].line + 1
    if hunk.line is None or hunk.is_at_end:
        return len(lines)
    if hunk.old_count or hunk.line > len(lines):
        raise EditError(
            f"The hunk only adds lines, and what it says of line {hunk.line} does not fit the file.", hint=_HINT
        )
    return hunk.line


def _build_insertion(search_text: SearchText, rows: Sequence[Row], index: int) -> Splice:
    lines, end = search_text.lines, search_text.lines.find_dominant_ending()
    offset = lines.starts[index] if index < len(lines) else len(search_text.text)
    text = "".join(f"{line}{end}" for _, line in rows)
    if index >= len(lines) and lines.bodies and not lines.ends[-1]:
        return Splice(offset, offset, end + text.removesuffix(end))
    return Splice(offset, offset, text)


def _build_splice(lines: TextLines, rows: Sequence[Row], start: int) -> Splice:
    """Build the change of a run of blank lines that begins at a line."""
    end, index, parts = lines.find_dominant_ending(), start, []
    for sign, line in rows:
        if sign == "+":
            parts.append(f"{line}{end}")
            continue
        if sign == " ":
            parts.append(lines.bodies[index] + (lines.ends[index] or end))
        index += 1
    text = "".join(parts)
    is_open_ended = index == len(lines) and not lines.ends[-1]
    return Splice(lines.starts[start], lines.find_end(index - 1), text.removesuffix(end) if is_open_ended else text)
