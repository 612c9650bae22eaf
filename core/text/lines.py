"""A text as lines with their own endings, and the rule by which new lines get theirs."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TextLines:
    """`bodies[i] + ends[i]` is line i; `starts[i]` its offset in the text. A last line without newline ends with ""."""

    bodies: list[str]
    ends: list[str]
    starts: list[int]

    def __len__(self) -> int:
        return len(self.bodies)

    def find_end(self, line: int) -> int:
        """The offset after a line, its ending included."""
        return self.starts[line] + len(self.bodies[line]) + len(self.ends[line])

    def find_line(self, offset: int) -> int:
        """The 0-indexed line that holds an offset."""
        return max(0, bisect_right(self.starts, offset) - 1)

    def find_dominant_ending(self) -> str:
        """The ending that most lines have; "\\n" when there is none."""
        counted = Counter(end for end in self.ends if end)
        return counted.most_common(1)[0][0] if counted else "\n"


def split_lines(text: str) -> TextLines:
    """Split at "\\n" and "\\r\\n" only: other control characters are content."""
    lines = TextLines([], [], [])
    offset = 0
    parts = text.split("\n")
    for part in parts[:-1]:
        carriage = part.endswith("\r")
        lines.bodies.append(part[:-1] if carriage else part)
        lines.ends.append("\r\n" if carriage else "\n")
        lines.starts.append(offset)
        offset += len(part) + 1
    if parts[-1]:
        lines.bodies.append(parts[-1])
        lines.ends.append("")
        lines.starts.append(offset)
    return lines


def normalise_endings(text: str) -> str:
    """Return the text with every CRLF as LF."""
    return text.replace("\r\n", "\n")


def find_line_number(text: str, offset: int) -> int:
    """The 1-indexed line that holds an offset."""
    return text.count("\n", 0, offset) + 1


def find_ending_near(text: str, offset: int) -> str:
    """The line ending in force at an offset: of its own line, else of the line before; "\\n" in a text without any."""
    place = text.find("\n", offset)
    if place < 0:
        place = text.rfind("\n", 0, offset)
    return "\r\n" if place > 0 and text[place - 1] == "\r" else "\n"


def carry_endings(old: str, new: str, fallback: str) -> str:
    """Return `new` with every bare LF turned into the ending that the line it replaces has in `old`.

    Lines that `old` and `new` share at both ends keep their own; further ones take the last ending, or `fallback`.
    """
    before, after = split_lines(old), split_lines(new)
    if all(end != "\n" for end in after.ends):
        return new
    ends = [end or fallback for end in before.ends]
    rest = ends[-1] if ends and before.ends[-1] else next((end for end in reversed(before.ends) if end), fallback)
    tail = _count_shared_tail(before.bodies, after.bodies)
    out = []
    for index, (body, end) in enumerate(zip(after.bodies, after.ends, strict=True)):
        from_end = index - len(after)
        place = from_end + len(before) if -from_end <= tail else index
        own = ends[place] if 0 <= place < len(ends) else rest
        out.append(body + (own if end == "\n" else end))
    return "".join(out)


def _count_shared_tail(before: list[str], after: list[str]) -> int:
    shared = 0
    for first, second in zip(reversed(before), reversed(after), strict=False):
        if first != second:
            break
        shared += 1
    return shared
