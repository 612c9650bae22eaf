"""Vim's text objects: a word, a quoted or bracketed text, a paragraph, around or inside (`:help text-objects`)."""

from __future__ import annotations

from typing import Final

from tui.chat.prompt.vim.motions import classify, find_line_end, find_line_start

Span = tuple[int, int]  # from the first character to behind the last one

_PAIRS: Final = {
    **dict.fromkeys("()b", "()"),
    **dict.fromkeys("[]", "[]"),
    **dict.fromkeys("{}B", "{}"),
    **dict.fromkeys("<>", "<>"),
}
OBJECTS: Final = "wWp\"'`()b[]{}B<>"


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
    """Return what stands between the nearest quotes of the line before and behind the offset, else between the first
    two behind it; on a quote, what that begins or ends, counted from the start of the line."""
    start, last = find_line_start(text, offset), find_line_end(text, offset)
    places = [index for index in range(start, last) if text[index] == quote and text[index - 1 : index] != "\\"]
    before = sum(position <= offset for position in places)
    first = before - 1 - (before + 1) % 2 if offset in places else max(before - 1, 0)
    if first + 1 >= len(places):
        return None
    begin, end = places[first], places[first + 1]
    return (begin, end + 1) if is_around else (begin + 1, end)
