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


def find_line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def find_line_end(text: str, at: int) -> int:
    """Return the offset of the newline behind a line, or the end of the text."""
    found = text.find("\n", at)
    return len(text) if found < 0 else found


def find_first_letter(text: str, at: int) -> int:
    """Return the offset of the first character of a line that is no blank."""
    start, end = find_line_start(text, at), find_line_end(text, at)
    return start + len(text[start:end]) - len(text[start:end].lstrip())


def move_line(text: str, at: int, count: int, column: int) -> int:
    """Move `count` lines down (below 0: up), as near to a column as there is."""
    for _ in range(min(abs(count), text.count("\n"))):
        if count > 0 and find_line_end(text, at) < len(text):
            at = find_line_end(text, at) + 1
        elif count < 0 and find_line_start(text, at) > 0:
            at = find_line_start(text, at) - 1
    start = find_line_start(text, at)
    return min(start + column, find_line_end(text, start))


def go_to_line(text: str, number: int) -> int:
    """Return where the first letter of a line is (1-indexed; beyond the last: that)."""
    at = 0
    for _ in range(min(number - 1, text.count("\n"))):
        at = find_line_end(text, at) + 1
    return find_first_letter(text, at)


def _move_left(text: str, at: int, count: int) -> int:
    return max(at - count, find_line_start(text, at))


def _move_right(text: str, at: int, count: int) -> int:
    return min(at + count, find_line_end(text, at))


def _go_to_line_start(text: str, at: int, _: int) -> int:
    return find_line_start(text, at)


def _go_to_first_letter(text: str, at: int, _: int) -> int:
    return find_first_letter(text, at)


def _go_to_line_end(text: str, at: int, count: int) -> int:
    return find_line_end(text, move_line(text, at, count - 1, 0) if count > 1 else at)


# Words


def classify(letter: str, *, is_big: bool) -> int:
    """Return 0 for a blank, 1 for a letter of a word, 2 for a sign; for a big word, all but blanks are alike."""
    if letter.isspace():
        return 0
    return 1 if is_big or letter.isalnum() or letter == "_" else 2


def _is_empty_line(text: str, at: int) -> bool:
    return text[at : at + 1] == "\n" and text[at - 1 : at] in {"\n", ""}


def _find_next_word(text: str, at: int, *, is_big: bool) -> int:
    kind = classify(text[at], is_big=is_big) if at < len(text) else 0
    while kind and at < len(text) and classify(text[at], is_big=is_big) == kind:
        at += 1
    begun = at if kind else at + 1
    while at < len(text) and text[at].isspace() and not (at >= begun and _is_empty_line(text, at)):
        at += 1
    return at


def _find_word_end(text: str, at: int, *, is_big: bool) -> int:
    at += 1
    while at < len(text) and text[at].isspace():
        at += 1
    if at >= len(text):
        return max(len(text) - 1, 0)
    kind = classify(text[at], is_big=is_big)
    while at + 1 < len(text) and classify(text[at + 1], is_big=is_big) == kind:
        at += 1
    return at


def _find_word_start(text: str, at: int, *, is_big: bool) -> int:
    at -= 1
    while at > 0 and text[at].isspace() and not _is_empty_line(text, at):
        at -= 1
    if at <= 0:
        return 0
    kind = classify(text[at], is_big=is_big)
    while kind and at > 0 and classify(text[at - 1], is_big=is_big) == kind:
        at -= 1
    return at


def _repeat(step: Callable[..., int], *, is_big: bool) -> Motion:
    def move(text: str, at: int, count: int) -> int:
        for _ in range(count):
            if (further := step(text, at, is_big=is_big)) == at:
                break
            at = further
        return at

    return move


# Signs and paragraphs


def find_letter(text: str, at: int, count: int, wanted: LetterSearch, *, is_repeated: bool = False) -> int | None:
    """Return where `f`, `F`, `t` or `T` leads within the line; None: nowhere. Repeated, a `t` leaves its place."""
    start, end = find_line_start(text, at), find_line_end(text, at)
    is_forward, is_before = wanted.key in "ft", wanted.key in "tT"
    found = at + (1 if is_forward else -1) * (is_before and is_repeated and count == 1)
    for _ in range(count):
        found = (
            text.find(wanted.letter, found + 1, end) if is_forward else text.rfind(wanted.letter, start, max(found, 0))
        )
        if found < 0:
            return None
    return found + (-1 if is_forward else 1) * is_before


def _find_match(text: str, at: int, _: int) -> int:
    """Return the bracket that belongs to the next one of the line."""
    end = find_line_end(text, at)
    place = next((each for each in range(at, end) if text[each] in _BRACKETS or text[each] in _CLOSING), None)
    if place is None:
        return at
    sign = text[place]
    other = _BRACKETS.get(sign) or _CLOSING[sign]
    depth = 0
    for each in range(place, len(text)) if sign in _BRACKETS else range(place, -1, -1):
        depth += (text[each] == sign) - (text[each] == other)
        if not depth:
            return each
    return at


def _find_paragraph_end(text: str, at: int, count: int) -> int:
    for _ in range(count):
        while at < len(text) and text[at] == "\n":
            at += 1
        found = text.find("\n\n", at)
        if found < 0:
            return len(text)
        at = found + 1
    return at


def _find_paragraph_start(text: str, at: int, count: int) -> int:
    for _ in range(count):
        while at > 0 and text[at - 1] == "\n":
            at -= 1
        found = text.rfind("\n\n", 0, at)
        if found < 0:
            return 0
        at = found + 1
    return at


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
