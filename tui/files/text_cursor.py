"""A place in a text that is read: a line, a column, the lines marked from there, and the matches of a search.

Lines and columns count from 0 and are those of the file, whatever its lines look like on screen.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate, islice
from typing import Final, NamedTuple

MAX_MATCHES: Final = 10_000
_NAME: Final = re.compile(r"[^\W\d]\w*")


class TextMatch(NamedTuple):
    """The characters [start, end) of a line."""

    line: int
    start: int
    end: int


class LineShift(NamedTuple):
    """The one place in which two texts differ: lines before `head` are the same, and those from `tail` of the old text
    on, which stand `by` lines further down in the new one."""

    head: int
    tail: int
    by: int

    def follow(self, line: int) -> int:
        """Return where a line of the old text stands in the new one; in between it stays as it is."""
        return line + self.by if line >= max(self.tail, self.head) else line


def compare_lines(before: Sequence[str], now: Sequence[str]) -> LineShift:
    shorter = min(len(before), len(now))
    head = next((index for index, (old, new) in enumerate(zip(before, now, strict=False)) if old != new), shorter)
    backwards = enumerate(zip(islice(reversed(before), shorter - head), reversed(now), strict=False))
    same = next((index for index, (old, new) in backwards if old != new), shorter - head)
    return LineShift(head, len(before) - same, len(now) - len(before))


class TextCursor:
    """The cursor in `lines`. `anchor`: the line from which on lines are marked, the cursor's own if none are."""

    def __init__(self) -> None:
        self.lines: Sequence[str] = ()
        self._text = ""  # the lines, and where each of them begins in it
        self._starts: Sequence[int] = ()
        self.line = self.column = self.anchor = 0
        self.pattern = ""
        self.matches: list[TextMatch] = []

    def set_lines(self, lines: Sequence[str], shift: LineShift | None = None) -> None:
        """Set the text; with a `shift` it is the same file, in which the cursor stays with its line."""
        self.lines, self._text = lines, "\n".join(lines)
        self._starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
        if shift is None:
            self.line = self.column = self.anchor = 0
            self.pattern = ""
        else:
            last = max(len(lines) - 1, 0)
            self.line, self.anchor = (
                max(min(shift.follow(line_number), last), 0) for line_number in (self.line, self.anchor)
            )
        self.find(self.pattern)

    def move_to(self, line: int, column: int | None = None, *, extends: bool = False) -> None:
        self.line = max(min(line, len(self.lines) - 1), 0)
        if column is not None:
            self.column = max(column, 0)
        if not extends:
            self.anchor = self.line

    @property
    def marked(self) -> range:
        """The marked lines, at least the cursor's own."""
        return range(min(self.line, self.anchor), max(self.line, self.anchor) + 1)

    # Names

    def find_name(self, is_name: Callable[[int, int], bool]) -> TextMatch | None:
        """Return the name at or after the cursor in its line, else the last one before it."""
        names = self._list_names(is_name)
        return next((name for name in names if name.end > self.column), names[-1] if names else None)

    def move_name(self, step: int, is_name: Callable[[int, int], bool]) -> None:
        """Go to the next or previous name of the line; from the last one, to the first of the line below."""
        current_name = self.find_name(is_name)
        names = self._list_names(is_name)
        index = names.index(current_name) + step if current_name is not None else -1
        if 0 <= index < len(names):
            self.move_to(self.line, names[index].start)
        elif 0 <= self.line + step < len(self.lines):
            self.move_to(self.line + step, 0)
            if step < 0 and (above := self._list_names(is_name)):
                self.column = above[-1].start

    def _list_names(self, is_name: Callable[[int, int], bool]) -> list[TextMatch]:
        text = self.lines[self.line] if self.line < len(self.lines) else ""
        matches = [TextMatch(self.line, *match.span()) for match in _NAME.finditer(text)]
        return [name_match for name_match in matches if is_name(name_match.start, name_match.end)] or matches

    # Finding

    def find(self, pattern: str) -> None:
        """Set what is looked for, literally; letters in lower case stand for both."""
        self.pattern, self.matches = pattern, []
        if not pattern:
            return
        search = re.compile(re.escape(pattern), 0 if pattern != pattern.lower() else re.IGNORECASE)
        for match in islice(search.finditer(self._text), MAX_MATCHES):
            line = bisect_right(self._starts, match.start()) - 1
            start = self._starts[line]
            self.matches.append(TextMatch(line, match.start() - start, match.end() - start))

    def move_match(self, step: int, *, from_here: bool = False) -> bool:
        """Go to the next or previous match, around the end of the text; `from_here`: one at the cursor counts, too."""
        if not self.matches:
            return False
        position = (self.line, self.column)
        index = bisect_left(self.matches, position, key=lambda candidate: candidate[:2])
        is_at = index < len(self.matches) and self.matches[index][:2] == position
        if step > 0:
            index += is_at and not from_here
        else:
            index -= 1
        match = self.matches[index % len(self.matches)]
        self.move_to(match.line, match.start)
        return True

    @property
    def match_number(self) -> int:
        """The number of the match at the cursor, from 1; 0 = the cursor is at none."""
        position = (self.line, self.column)
        index = bisect_left(self.matches, position, key=lambda candidate: candidate[:2])
        return index + 1 if index < len(self.matches) and self.matches[index][:2] == position else 0

    def list_matches(self, line: int) -> list[TextMatch]:
        low = bisect_left(self.matches, line, key=lambda match: match.line)
        return self.matches[low : bisect_left(self.matches, line + 1, key=lambda match: match.line)]
