"""A text as lines with their own endings, the differences of two texts, and changes of a text as splices."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import NamedTuple

Opcode = tuple[str, int, int, int, int]
_MAX_COMPARED = 250_000  # pairs of lines; a larger middle counts as replaced


@dataclass(frozen=True, slots=True)
class TextLines:
    """`bodies[i] + ends[i]` is line i; `starts[i]` its offset in the text. A last line without newline ends with ""."""

    bodies: list[str]
    ends: list[str]
    starts: list[int]

    def __len__(self) -> int:
        return len(self.bodies)

    def find_end(self, line: int) -> int:
        """Return the offset after a line, including its ending."""
        return self.starts[line] + len(self.bodies[line]) + len(self.ends[line])

    def find_line(self, offset: int) -> int:
        """Return the 0-indexed line that contains an offset."""
        return max(0, bisect_right(self.starts, offset) - 1)

    def fit_end(self, text: str) -> str:
        """Return a replacement of these lines, without its last line ending if they have none."""
        return trim_ending(text) if self.ends and not self.ends[-1] else text

    def find_dominant_ending(self) -> str:
        """Return the most frequent ending; "\\n" without any."""
        counter = Counter(end for end in self.ends if end)
        return counter.most_common(1)[0][0] if counter else "\n"


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
    """Return the 1-indexed line that contains an offset."""
    return text.count("\n", 0, offset) + 1


def find_line_numbers(text: str, offsets: Iterable[int]) -> list[int]:
    """Return `find_line_number` for many offsets; linear if they ascend."""
    line_numbers, position, line = [], 0, 1
    for offset in offsets:
        line = line + text.count("\n", position, offset) if offset >= position else find_line_number(text, offset)
        position = offset
        line_numbers.append(line)
    return line_numbers


def find_ending_near(text: str, offset: int) -> str:
    """Return the ending of an offset's line, else of the line before; "\\n" in a text without any."""
    newline_offset = text.find("\n", offset)
    if newline_offset < 0:
        newline_offset = text.rfind("\n", 0, offset)
    return "\r\n" if newline_offset > 0 and text[newline_offset - 1] == "\r" else "\n"


def carry_endings(old: str, new: str, fallback: str) -> str:
    """Return `new` with every bare LF replaced by the ending of the corresponding line of `old`.

    Lines in the shared head and tail correspond; further ones get the last ending, or `fallback`.
    """
    before, after = split_lines(old), split_lines(new)
    if all(end != "\n" for end in after.ends):
        return new
    ends = [end or fallback for end in before.ends]
    rest = ends[-1] if ends and before.ends[-1] else next((end for end in reversed(before.ends) if end), fallback)
    tail = count_shared_head(before.bodies[::-1], after.bodies[::-1])
    parts = []
    for index, (body, end) in enumerate(zip(after.bodies, after.ends, strict=True)):
        from_end = index - len(after)
        old_index = from_end + len(before) if -from_end <= tail else index
        ending = ends[old_index] if 0 <= old_index < len(ends) else rest
        parts.append(body + (ending if end == "\n" else end))
    return "".join(parts)


def split_whole_lines(text: str) -> list[str]:
    """Split a text into lines with their endings."""
    lines = split_lines(text)
    return [body + end for body, end in zip(lines.bodies, lines.ends, strict=True)]


def split_closed(text: str) -> tuple[list[str], bool]:
    """Split into lines without endings, and return whether a newline ends the last one."""
    lines = normalise_endings(text).split("\n")
    is_closed = lines[-1] == "" and len(lines) > 1
    return (lines[:-1], True) if is_closed else (lines, False)


def cut_lines(data: bytes, limit: int) -> bytes:
    """Return the whole lines of UTF-8 within a limit of bytes; of a single longer line, whole characters."""
    if len(data) <= limit:
        return data
    prefix = data[: max(limit, 0)]
    return prefix.rpartition(b"\n")[0] or prefix.decode("utf-8", "ignore").encode()


def clip(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters, the last of which is "…" if some are missing."""
    return text if len(text) <= limit else f"{text[: max(limit - 1, 0)]}…"


def trim_ending(text: str) -> str:
    """Return the text without the ending of its last line."""
    return text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text


def find_changed_span(before: str, after: str) -> tuple[int, int, int]:
    """Return the smallest region of lines that contains every change: first and last line before, last line after
    (1-indexed, inclusive)."""
    old, new = split_whole_lines(before), split_whole_lines(after)
    head, tail = count_shared_ends(old, new)
    return head + 1, len(old) - tail, len(new) - tail


def number_lines(text: str, *, first: int = 1) -> str:
    """Return the text for the edit agent: every line after its number, counted from `first`."""
    return "\n".join(f"{number:6}|{line}" for number, line in enumerate(split_lines(text).bodies, start=first))


def diff_lines(old: Sequence[str], new: Sequence[str]) -> Iterator[Opcode]:
    """Diff like `SequenceMatcher.get_opcodes`, after stripping the shared ends; a huge middle is one replacement."""
    head, tail = count_shared_ends(old, new)
    i2, j2 = len(old) - tail, len(new) - tail
    if head:
        yield "equal", 0, head, 0, head
    if (i2 - head) * (j2 - head) > _MAX_COMPARED:
        yield "replace", head, i2, head, j2
    else:
        inner = SequenceMatcher(None, old[head:i2], new[head:j2], autojunk=False).get_opcodes()
        for tag, a1, a2, b1, b2 in inner:
            yield tag, a1 + head, a2 + head, b1 + head, b2 + head
    if tail:
        yield "equal", i2, len(old), j2, len(new)


def count_shared_ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Return the numbers of lines (or characters of two strings) in the shared head, and in the shared tail of the
    rest."""
    head = count_shared_head(old, new)
    return head, count_shared_head(old[head:][::-1], new[head:][::-1])


def count_shared_head(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the number of lines (or characters of two strings) in the shared head."""
    count = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        count += 1
    return count


class Splice(NamedTuple):
    """Replace `[start, end)` of the text."""

    start: int
    end: int
    text: str


def apply_splices(text: str, splices: Iterable[Splice], start: int = 0, end: int | None = None) -> str:
    """Return text[start:end] with the splices applied. They must not overlap; those at one offset stay in order."""
    parts, position = [], start
    for replacement in sorted(splices, key=lambda splice: splice[:2]):
        parts += [text[position : replacement.start], replacement.text]
        position = replacement.end
    return "".join([*parts, text[position:end]])
