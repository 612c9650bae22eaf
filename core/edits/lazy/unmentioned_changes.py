"""The law for an edit that a model worked out from a draft: nothing may change that the draft does not speak of.

Lines that come in stand in the draft or in the file, and are no markers; lines that go, and lines of the file that
come a second time, lie next to lines that both of them have; a line that the draft repeats stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final

from core.edits.lazy.line_keys import parse_line_key
from core.edits.lazy.markers import is_marker
from core.text.lines import find_changed_span, split_lines

REACH: Final = 3  # lines between what goes and the nearest line that the draft has
_COMPARED: Final = 4_000  # lines of a region that are compared one by one


def find_unmentioned_change(before: str, after: str, draft: str) -> str:
    """Describe what changed although the draft does not speak of it; "" when there is nothing of that kind."""
    first, old_last, last = find_changed_span(before, after)
    if max(old_last, last) - first > _COMPARED:
        return f"lines {first}-{old_last} would change, which is more than can be checked"
    old, new = split_lines(before).bodies, split_lines(after).bodies
    if dropped_line := _find_dropped(old, new, split_lines(draft).bodies):
        return f"the line {dropped_line[:120]!r} would be gone, and the draft has it"
    mentions, start = _Mentioned(old, split_lines(draft).bodies), first - 1
    matcher = SequenceMatcher(None, old[start:old_last], new[start:last], autojunk=False)
    changes = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    objections = (
        mentions.find_objection((start + i1, start + i2), new[start + j1 : start + j2]) for _, i1, i2, j1, j2 in changes
    )
    return next(filter(None, objections), "")


def _find_dropped(old: Sequence[str], new: Sequence[str], draft: Sequence[str]) -> str:
    """Find a line that the file and the draft have, and that would be there less often than both say; "" = none."""
    draft_counts = Counter(
        line.strip() for line in draft if any(letter.isalnum() for letter in line) and not is_marker(line)
    )
    old_counts, new_counts = (Counter(line.strip() for line in lines) for lines in (old, new))
    return next((line for line, count in draft_counts.items() if new_counts[line] < min(count, old_counts[line])), "")


class _Mentioned:
    """The lines and names of a file that a draft speaks of."""

    def __init__(self, old: Sequence[str], draft: Sequence[str]) -> None:
        self._old = old
        self._kept = {line.strip() for line in old}
        self._lines = {line.strip() for line in draft}
        telling = {line for line in self._lines if any(letter.isalnum() for letter in line)}
        names = {key for line in telling if (key := parse_line_key(line)) is not None}
        self._near = [line.strip() in telling or parse_line_key(line) in names for line in old]

    def find_objection(self, removed_span: tuple[int, int], new: Sequence[str]) -> str:
        """Return why the lines `removed_span` (0-indexed, the end excluded) may not become `new`; "" = they may."""
        for line in map(str.strip, new):
            if line not in self._kept and (line not in self._lines or is_marker(line)):
                return f"the line {line[:120]!r} is neither in the file nor a line of code in the draft"
        start, stop = removed_span
        moves = any(line.strip() for line in self._old[start:stop]) or all(line.strip() in self._kept for line in new)
        if moves and not any(self._near[max(0, start - REACH) : stop + REACH]):
            return f"lines {start + 1}-{max(stop, start + 1)} would change, and the draft speaks of nothing near them"
        return ""
