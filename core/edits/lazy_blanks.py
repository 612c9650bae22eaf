"""The blank lines of a file that was put together from a draft and from what stays.

Lines that were neighbours in the file keep what was between them, unless the draft writes both and nothing but blank
lines between them. A blank line beside a marker is the marker's surroundings, so it only counts where something new
stands; code that stays keeps the blank lines before it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from core.edits.lazy_matches import CONTINUED, Token, depth_of
from core.edits.lines import Lines

_OPENS = re.compile(r"\s*(?:@\w|#\[|/\*\*).*|.*[{(\[:]\s*$|.*\bdo(?:\s*\|[^|]*\|)?$|\s*(?:def|class|module)\b.*")


def opens(line: str) -> bool:
    """Whether a line begins a part of several lines."""
    return _OPENS.match(line) is not None


class Row(NamedTuple):
    """One filled line of the result: the token that gives it (None: a marker does), the line of the file that it is or
    takes the place of (None: it is new)."""

    token: int | None
    old: int | None


class Spacing:
    """What stands between two rows of the result, as (body, ending) of blank lines."""

    def __init__(self, lines: Lines, tokens: Sequence[Token], *, open_ends: bool) -> None:
        self.lines, self.tokens, self.open_ends = lines, tokens, open_ends
        self.fallback = lines.dominant()

    def between(self, above: Row | None, below: Row | None) -> list[tuple[str, str]]:
        """None stands for the start and the end of the file, or of the part of it that is edited."""
        if above is None or below is None:
            return self._outside(above, below)
        told = self._told(above.token, below.token)
        if above.old is not None and below.old is not None and self._near(above.old, below.old):
            stays = self._blanks(above.old + 1, below.old)
            return stays if told is None or told == len(stays) else self._new(told)
        if told is not None:
            return self._new(told)
        before = [] if below.old is None else self._blanks(self._from(below.old), below.old)
        if below.token is None:
            asked = 0 if above.token is None else self._run(above.token, 1)
            return before if len(before) >= asked else self._new(asked)
        asked = max(self._run(below.token, -1), 0 if above.token is None else self._run(above.token, 1))
        if above.old is not None and below.old is None and opens(self.tokens[below.token].text):
            asked = max(asked, self._usual(above.old, self.tokens[below.token].depth))
        return self._new(asked) if asked else before

    def _usual(self, old: int, depth: int) -> int:
        """How many blank lines stand before the nearest part of this depth, at or above the line that follows `old`."""
        place = next((each for each in range(old + 1, len(self.lines)) if self.lines.bodies[each].strip()), old)
        while place > 0:
            first = self._from(place)
            line, above = self.lines.bodies[place], self.lines.bodies[first - 1] if first else ""
            here = depth_of(line)
            if here < depth and place <= old:
                break
            if here == depth and opens(line) and first and (depth_of(above) > depth or CONTINUED.match(above.strip())):
                return place - first
            place = first - 1
        return 0

    def _outside(self, above: Row | None, below: Row | None) -> list[tuple[str, str]]:
        row, step = (below, -1) if above is None else (above, 1)
        if row is None:
            return []
        if row.token is not None and not self.open_ends:
            place = row.token + step * (self._run(row.token, step) + 1)
            if not 0 <= place < len(self.tokens):
                return self._new(self._run(row.token, step))
        if row.old is None:
            return []
        first, stop = (0, row.old) if above is None else (row.old + 1, len(self.lines))
        return self._blanks(first, stop) if self._empty(first, stop) else []

    def _told(self, above: int | None, below: int | None) -> int | None:
        """How many blank lines the draft writes between two of its lines; None when a marker stands there, too."""
        if above is None or below is None:
            return None
        between = self.tokens[above + 1 : below]
        if any(token.kind == "marker" for token in between):
            return None
        return sum(not token.text.strip() for token in between)

    def _run(self, token: int, step: int) -> int:
        """How many blank lines follow (or precede) a line of the draft."""
        count, place = 0, token + step
        while 0 <= place < len(self.tokens) and not self.tokens[place].text.strip():
            count, place = count + 1, place + step
        return count

    def _from(self, old: int) -> int:
        while old > 0 and not self.lines.bodies[old - 1].strip():
            old -= 1
        return old

    def _near(self, first: int, last: int) -> bool:
        return first < last and self._empty(first + 1, last)

    def _empty(self, first: int, stop: int) -> bool:
        return not any(self.lines.bodies[place].strip() for place in range(first, stop))

    def _blanks(self, first: int, stop: int) -> list[tuple[str, str]]:
        return [(self.lines.bodies[place], self.lines.ends[place] or self.fallback) for place in range(first, stop)]

    def _new(self, count: int) -> list[tuple[str, str]]:
        return [("", self.fallback)] * count
