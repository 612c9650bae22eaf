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


def find_object(text: str, at: int, name: str) -> Span | None:
    """Return the span of an object (`iw`, `a"`, …) at an offset; None: there is none."""
    how, kind = name[0], name[1]
    if kind in "wW":
        return _find_word(text, at, is_big=kind == "W", is_around=how == "a")
    if kind == "p":
        return _find_paragraph(text, at, is_around=how == "a")
    if kind in _PAIRS:
        found = _find_brackets(text, at, _PAIRS[kind])
        return found if found is None or how == "a" else (found[0] + 1, found[1] - 1)
    return _find_quotes(text, at, kind, is_around=how == "a")


def _grow(text: str, at: int, *, is_big: bool) -> Span:
    """Return the run of characters of one kind around an offset, within its line."""
    first, last = find_line_start(text, at), find_line_end(text, at)
    if at >= last:
        return at, at
    kind = classify(text[at], is_big=is_big)
    start = end = at
    while start > first and classify(text[start - 1], is_big=is_big) == kind:
        start -= 1
    while end < last and classify(text[end], is_big=is_big) == kind:
        end += 1
    return start, end


def _find_word(text: str, at: int, *, is_big: bool, is_around: bool) -> Span:
    start, end = _grow(text, at, is_big=is_big)
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


def _find_paragraph(text: str, at: int, *, is_around: bool) -> Span:
    start, end = find_line_start(text, at), find_line_end(text, at)
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


def _is_blank_line(text: str, at: int) -> bool:
    return not text[find_line_start(text, at) : find_line_end(text, at)].strip()


def _find_brackets(text: str, at: int, pair: str) -> Span | None:
    opening, closing = pair[0], pair[1]
    start, depth = at, 0
    while start >= 0:
        sign = text[start : start + 1]
        if sign == opening:
            if not depth:
                break
            depth -= 1
        depth += sign == closing and start != at
        start -= 1
    depth = 0
    for end in range(max(start, 0), len(text)):
        depth += (text[end] == opening) - (text[end] == closing)
        if not depth:
            return (start, end + 1) if start >= 0 and end >= at else None
    return None


def _find_quotes(text: str, at: int, quote: str, *, is_around: bool) -> Span | None:
    """Return what stands between the nearest quotes of the line before and behind the offset, else between the first
    two behind it; on a quote, what that begins or ends, counted from the start of the line."""
    start, last = find_line_start(text, at), find_line_end(text, at)
    places = [each for each in range(start, last) if text[each] == quote and text[each - 1 : each] != "\\"]
    before = sum(place <= at for place in places)
    first = before - 1 - (before + 1) % 2 if at in places else max(before - 1, 0)
    if first + 1 >= len(places):
        return None
    begin, end = places[first], places[first + 1]
    return (begin, end + 1) if is_around else (begin + 1, end)
