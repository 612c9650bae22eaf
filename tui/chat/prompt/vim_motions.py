"""Vim's motions and text objects (`:help motion.txt`): cursor targets and spans of operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

Motion = Callable[[str, int, int], int]
_BRACKETS: Final = {"(": ")", "[": "]", "{": "}", "<": ">"}
_CLOSING: Final = {close: begin for begin, close in _BRACKETS.items()}
Span = tuple[int, int]  # from the first character to behind the last one
_PAIRS: Final = {
    **dict.fromkeys("()b", "()"),
    **dict.fromkeys("[]", "[]"),
    **dict.fromkeys("{}B", "{}"),
    **dict.fromkeys("<>", "<>"),
}
OBJECTS: Final = "wWp\"'`()b[]{}B<>"


class LetterSearch(NamedTuple):
    """The target letter of `f`, `F`, `t` or `T` in a line."""

    key: str
    letter: str

    def reverse(self) -> LetterSearch:
        return LetterSearch(self.key.swapcase(), self.letter)


# Lines


def find_line_start(text: str, offset: int) -> int:
    return text.rfind("\n", 0, offset) + 1


def find_line_end(text: str, offset: int) -> int:
    """Return the offset of the newline behind a line, or the end of the text."""
    end = text.find("\n", offset)
    return len(text) if end < 0 else end


def find_first_letter(text: str, offset: int) -> int:
    """Return the offset of the first non-blank character of a line."""
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
    """Return the offset of a line's first letter (1-indexed; clamped to the last line)."""
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
    """Return 0 for a blank, 1 for a word character, 2 for a sign; for WORDs all non-blanks are alike."""
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
    """Return the target of `f`, `F`, `t` or `T` within the line, None = none. A repeated `t` moves past its last
    target."""
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


INCLUSIVE: Final = frozenset("eE%ft")  # inclusive motions: an operator includes the target character


LINEWISE: Final = frozenset({"j", "k", "gg", "G"})


def find_object(text: str, offset: int, name: str) -> Span | None:
    """Return the span of an object (`iw`, `a"`, …) at an offset; None: there is none."""
    scope, kind = name[0], name[1]
    if kind in "wW":
        return _find_word(text, offset, is_big=kind == "W", is_around=scope == "a")
    if kind == "p":
        return _find_paragraph(text, offset, is_around=scope == "a")
    if kind in _PAIRS:
        span = _find_brackets(text, offset, _PAIRS[kind])
        return span if span is None or scope == "a" else (span[0] + 1, span[1] - 1)
    return _find_quotes(text, offset, kind, is_around=scope == "a")


def _grow(text: str, offset: int, *, is_big: bool) -> Span:
    """Return the run of characters of one kind around an offset, within its line."""
    first, last = find_line_start(text, offset), find_line_end(text, offset)
    if offset >= last:
        return offset, offset
    kind = classify(text[offset], is_big=is_big)
    start = end = offset
    while start > first and classify(text[start - 1], is_big=is_big) == kind:
        start -= 1
    while end < last and classify(text[end], is_big=is_big) == kind:
        end += 1
    return start, end


def _find_word(text: str, offset: int, *, is_big: bool, is_around: bool) -> Span:
    start, end = _grow(text, offset, is_big=is_big)
    if not is_around or start == end:
        return start, end
    last = find_line_end(text, end)
    if text[start].isspace():  # blanks, and the word behind them
        return start, _grow(text, end, is_big=is_big)[1]
    if end < last and text[end].isspace():
        return start, _grow(text, end, is_big=is_big)[1]
    if start > find_line_start(text, start) and text[start - 1].isspace():
        return _grow(text, start - 1, is_big=is_big)[0], end
    return start, end


def _find_paragraph(text: str, offset: int, *, is_around: bool) -> Span:
    start, end = find_line_start(text, offset), find_line_end(text, offset)
    is_blank = not text[start:end].strip()
    while start > 0 and _is_blank_line(text, start - 1) == is_blank:
        start = find_line_start(text, start - 1)
    end = _extend_lines(text, end, is_blank=is_blank)
    if is_around:
        end = _extend_lines(text, end, is_blank=not is_blank)
    return start, end


def _extend_lines(text: str, end: int, *, is_blank: bool) -> int:
    while end < len(text) and _is_blank_line(text, end + 1) == is_blank:
        end = find_line_end(text, end + 1)
    return end


def _is_blank_line(text: str, offset: int) -> bool:
    return not text[find_line_start(text, offset) : find_line_end(text, offset)].strip()


def _find_brackets(text: str, offset: int, pair: str) -> Span | None:
    opening, closing = pair[0], pair[1]
    start, depth = offset, 0
    while start >= 0:
        sign = text[start : start + 1]
        if sign == opening:
            if not depth:
                break
            depth -= 1
        depth += sign == closing and start != offset
        start -= 1
    depth = 0
    for end in range(max(start, 0), len(text)):
        depth += (text[end] == opening) - (text[end] == closing)
        if not depth:
            return (start, end + 1) if start >= 0 and end >= offset else None
    return None


def _find_quotes(text: str, offset: int, quote: str, *, is_around: bool) -> Span | None:
    """Return the text between the nearest quotes around the offset within its line, else between the first two
    behind it. On a quote, quotes are paired from the start of the line."""
    start, last = find_line_start(text, offset), find_line_end(text, offset)
    places = [index for index in range(start, last) if text[index] == quote and text[index - 1 : index] != "\\"]
    before = sum(position <= offset for position in places)
    first = before - 1 - (before + 1) % 2 if offset in places else max(before - 1, 0)
    if first + 1 >= len(places):
        return None
    begin, end = places[first], places[first + 1]
    return (begin, end + 1) if is_around else (begin + 1, end)
