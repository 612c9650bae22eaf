"""Vim's motions over a plain text: from an offset (0-indexed characters) and a count to an offset.

What they mean is as in Vim's `:help motion.txt`. A motion that leads nowhere returns where it began.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

Motion = Callable[[str, int, int], int]
_BRACKETS: Final = {"(": ")", "[": "]", "{": "}", "<": ">"}
_CLOSING: Final = {close: begin for begin, close in _BRACKETS.items()}


class LetterSearch(NamedTuple):
    """The letter that `f`, `F`, `t` or `T` looks for in a line."""

    key: str
    letter: str

    def turn_round(self) -> LetterSearch:
        return LetterSearch(self.key.swapcase(), self.letter)


# Lines


def find_line_start(text: str, offset: int) -> int:
    return text.rfind("\n", 0, offset) + 1


def find_line_end(text: str, offset: int) -> int:
    """Return the offset of the newline behind a line, or the end of the text."""
    end = text.find("\n", offset)
    return len(text) if end < 0 else end


def find_first_letter(text: str, offset: int) -> int:
    """Return the offset of the first character of a line that is no blank."""
    start, end = find_line_start(text, offset), find_line_end(text, offset)
    return start + len(text[start:end]) - len(text[start:end].lstrip())


def move_line(text: str, offset: int, count: int, column: int) -> int:
    """Move `count` lines down (below 0: up), as near to a column as there is."""
    for _ in range(min(abs(count), text.count("\n"))):
        if count > 0 and find_line_end(text, offset) < len(text):
            offset = find_line_end(text, offset) + 1
        elif count < 0 and find_line_start(text, offset) > 0:
            offset = find_line_start(text, offset) - 1
    start = find_line_start(text, offset)
    return min(start + column, find_line_end(text, start))


def go_to_line(text: str, number: int) -> int:
    """Return where the first letter of a line is (1-indexed; beyond the last: that)."""
    offset = 0
    for _ in range(min(number - 1, text.count("\n"))):
        offset = find_line_end(text, offset) + 1
    return find_first_letter(text, offset)


def _move_left(text: str, offset: int, count: int) -> int:
    return max(offset - count, find_line_start(text, offset))


def _move_right(text: str, offset: int, count: int) -> int:
    return min(offset + count, find_line_end(text, offset))


def _go_to_line_start(text: str, offset: int, _: int) -> int:
    return find_line_start(text, offset)


def _go_to_first_letter(text: str, offset: int, _: int) -> int:
    return find_first_letter(text, offset)


def _go_to_line_end(text: str, offset: int, count: int) -> int:
    return find_line_end(text, move_line(text, offset, count - 1, 0) if count > 1 else offset)


# Words


def classify(letter: str, *, is_big: bool) -> int:
    """Return 0 for a blank, 1 for a letter of a word, 2 for a sign; for a big word, all but blanks are alike."""
    if letter.isspace():
        return 0
    return 1 if is_big or letter.isalnum() or letter == "_" else 2


def _is_empty_line(text: str, offset: int) -> bool:
    return text[offset : offset + 1] == "\n" and text[offset - 1 : offset] in {"\n", ""}


def _find_next_word(text: str, offset: int, *, is_big: bool) -> int:
    kind = classify(text[offset], is_big=is_big) if offset < len(text) else 0
    while kind and offset < len(text) and classify(text[offset], is_big=is_big) == kind:
        offset += 1
    start = offset if kind else offset + 1
    while offset < len(text) and text[offset].isspace() and not (offset >= start and _is_empty_line(text, offset)):
        offset += 1
    return offset


def _find_word_end(text: str, offset: int, *, is_big: bool) -> int:
    offset += 1
    while offset < len(text) and text[offset].isspace():
        offset += 1
    if offset >= len(text):
        return max(len(text) - 1, 0)
    kind = classify(text[offset], is_big=is_big)
    while offset + 1 < len(text) and classify(text[offset + 1], is_big=is_big) == kind:
        offset += 1
    return offset


def _find_word_start(text: str, offset: int, *, is_big: bool) -> int:
    offset -= 1
    while offset > 0 and text[offset].isspace() and not _is_empty_line(text, offset):
        offset -= 1
    if offset <= 0:
        return 0
    kind = classify(text[offset], is_big=is_big)
    while kind and offset > 0 and classify(text[offset - 1], is_big=is_big) == kind:
        offset -= 1
    return offset


def _repeat(step: Callable[..., int], *, is_big: bool) -> Motion:
    def move(text: str, offset: int, count: int) -> int:
        for _ in range(count):
            if (further := step(text, offset, is_big=is_big)) == offset:
                break
            offset = further
        return offset

    return move


# Signs and paragraphs


def find_letter(text: str, offset: int, count: int, search: LetterSearch, *, is_repeated: bool = False) -> int | None:
    """Return where `f`, `F`, `t` or `T` leads within the line; None: nowhere. Repeated, a `t` leaves its place."""
    start, end = find_line_start(text, offset), find_line_end(text, offset)
    is_forward, is_before = search.key in "ft", search.key in "tT"
    position = offset + (1 if is_forward else -1) * (is_before and is_repeated and count == 1)
    for _ in range(count):
        position = (
            text.find(search.letter, position + 1, end)
            if is_forward
            else text.rfind(search.letter, start, max(position, 0))
        )
        if position < 0:
            return None
    return position + (-1 if is_forward else 1) * is_before


def _find_match(text: str, offset: int, _: int) -> int:
    """Return the bracket that belongs to the next one of the line."""
    end = find_line_end(text, offset)
    bracket_offset = next(
        (index for index in range(offset, end) if text[index] in _BRACKETS or text[index] in _CLOSING), None
    )
    if bracket_offset is None:
        return offset
    sign = text[bracket_offset]
    other = _BRACKETS.get(sign) or _CLOSING[sign]
    depth = 0
    for index in range(bracket_offset, len(text)) if sign in _BRACKETS else range(bracket_offset, -1, -1):
        depth += (text[index] == sign) - (text[index] == other)
        if not depth:
            return index
    return offset


def _find_paragraph_end(text: str, offset: int, count: int) -> int:
    for _ in range(count):
        while offset < len(text) and text[offset] == "\n":
            offset += 1
        gap = text.find("\n\n", offset)
        if gap < 0:
            return len(text)
        offset = gap + 1
    return offset


def _find_paragraph_start(text: str, offset: int, count: int) -> int:
    for _ in range(count):
        while offset > 0 and text[offset - 1] == "\n":
            offset -= 1
        gap = text.rfind("\n\n", 0, offset)
        if gap < 0:
            return 0
        offset = gap + 1
    return offset


MOTIONS: Final[Mapping[str, Motion]] = {
    "h": _move_left,
    "l": _move_right,
    "0": _go_to_line_start,
    "^": _go_to_first_letter,
    "_": _go_to_first_letter,
    "$": _go_to_line_end,
    "w": _repeat(_find_next_word, is_big=False),
    "W": _repeat(_find_next_word, is_big=True),
    "e": _repeat(_find_word_end, is_big=False),
    "E": _repeat(_find_word_end, is_big=True),
    "b": _repeat(_find_word_start, is_big=False),
    "B": _repeat(_find_word_start, is_big=True),
    "%": _find_match,
    "}": _find_paragraph_end,
    "{": _find_paragraph_start,
}
INCLUSIVE: Final = frozenset("eE%ft")  # the character that they lead to belongs to what an operator takes
LINEWISE: Final = frozenset({"j", "k", "gg", "G"})
