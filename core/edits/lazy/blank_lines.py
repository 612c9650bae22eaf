"""The blank lines of a file that was put together from a draft and from what stays.

Lines that were neighbours in the file keep what was between them, unless the draft writes both and nothing but blank
lines between them. A blank line beside a marker is the marker's surroundings, so it only counts where something new
stands; code that stays keeps the blank lines before it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from core.edits.indentation import measure_depth
from core.edits.lazy.line_matches import CONTINUED, DraftToken
from core.text.lines import TextLines

_OPENS = re.compile(r"\s*(?:@\w|#\[|/\*\*).*|.*[{(\[:]\s*$|.*\bdo(?:\s*\|[^|]*\|)?$|\s*(?:def|class|module)\b.*")


def opens_block(line: str) -> bool:
    """True if a line begins a part of several lines."""
    return _OPENS.match(line) is not None


class ResultRow(NamedTuple):
    """One filled line of the result. `token` None: a marker gives it; `old` None: it is no line of the file."""

    token: int | None
    old: int | None


class Spacing:
    """The blank lines between two rows of the result, as (body, ending) pairs."""

    def __init__(self, lines: TextLines, tokens: Sequence[DraftToken], *, open_ends: bool) -> None:
        self.lines, self.tokens, self.open_ends = lines, tokens, open_ends
        self.fallback = lines.find_dominant_ending()

    def find_blanks_between(self, above: ResultRow | None, below: ResultRow | None) -> list[tuple[str, str]]:
        """Return the blank lines between two rows; None stands for the start and the end of what is edited."""
        if above is None or below is None:
            return self._find_outside(above, below)
        draft_count = self._count_drafted(above.token, below.token)
        if above.old is not None and below.old is not None and self._is_blank(above.old + 1, below.old):
            blanks = self._take_blanks(above.old + 1, below.old)
            return blanks if draft_count is None or draft_count == len(blanks) else self._make_blanks(draft_count)
        if draft_count is not None:
            return self._make_blanks(draft_count)
        before = [] if below.old is None else self._take_blanks(self._find_first_blank(below.old), below.old)
        if below.token is None:
            blank_count = 0 if above.token is None else self._count_run(above.token, 1)
            return before if len(before) >= blank_count else self._make_blanks(blank_count)
        blank_count = max(
            self._count_run(below.token, -1), 0 if above.token is None else self._count_run(above.token, 1)
        )
        if above.old is not None and below.old is None and opens_block(self.tokens[below.token].text):
            blank_count = max(blank_count, self._count_usual(above.old, self.tokens[below.token].depth))
        return self._make_blanks(blank_count) if blank_count else before

    def _count_usual(self, old: int, depth: int) -> int:
        """Number of blank lines before the nearest part of this depth, at or above the line that follows `old`."""
        position = next((index for index in range(old + 1, len(self.lines)) if self.lines.bodies[index].strip()), old)
        while position > 0:
            first = self._find_first_blank(position)
            line, above = self.lines.bodies[position], self.lines.bodies[first - 1] if first else ""
            line_depth = measure_depth(line)
            if line_depth < depth and position <= old:
                break
            ends = measure_depth(above) > depth or CONTINUED.match(above.strip())
            if line_depth == depth and first and ends and opens_block(line):
                return position - first
            position = first - 1
        return 0

    def _find_outside(self, above: ResultRow | None, below: ResultRow | None) -> list[tuple[str, str]]:
        row, step = (below, -1) if above is None else (above, 1)
        if row is None:
            return []
        if row.token is not None and not self.open_ends:
            index = row.token + step * (self._count_run(row.token, step) + 1)
            if not 0 <= index < len(self.tokens):
                return self._make_blanks(self._count_run(row.token, step))
        if row.old is None:
            return []
        first, stop = (0, row.old) if above is None else (row.old + 1, len(self.lines))
        return self._take_blanks(first, stop) if self._is_blank(first, stop) else []

    def _count_drafted(self, above: int | None, below: int | None) -> int | None:
        """Number of blank lines that the draft writes between two of its lines; None when a marker is there, too."""
        if above is None or below is None:
            return None
        between = self.tokens[above + 1 : below]
        if any(token.kind == "marker" for token in between):
            return None
        return sum(not token.text.strip() for token in between)

    def _count_run(self, token: int, step: int) -> int:
        """Number of blank lines that follow (`step` 1) or precede (-1) a line of the draft."""
        count, index = 0, token + step
        while 0 <= index < len(self.tokens) and not self.tokens[index].text.strip():
            count, index = count + 1, index + step
        return count

    def _find_first_blank(self, old: int) -> int:
        while old > 0 and not self.lines.bodies[old - 1].strip():
            old -= 1
        return old

    def _is_blank(self, first: int, stop: int) -> bool:
        return not any(self.lines.bodies[index].strip() for index in range(first, stop))

    def _take_blanks(self, first: int, stop: int) -> list[tuple[str, str]]:
        return [(self.lines.bodies[index], self.lines.ends[index] or self.fallback) for index in range(first, stop)]

    def _make_blanks(self, count: int) -> list[tuple[str, str]]:
        return [("", self.fallback)] * count
