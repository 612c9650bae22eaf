"""Changed characters within a line: word by word, with bounded work, and none where little is alike."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

Marks = tuple[tuple[int, int], ...]

_WORD = re.compile(r"\w+|\s+|.", re.DOTALL)
_MAX_WORDS = 120  # of the changed middle, per line
_MIN_SHARED = 0.4  # share of a line's characters that must be the same for marks to say anything


def compute_marks(removed_line: str, added_line: str) -> tuple[Marks, Marks]:
    """Return the [start, end) ranges that differ, for both lines; empty if the lines have too little in common."""
    head = _measure_common_head(removed_line, added_line)
    tail = _measure_common_head(removed_line[head:][::-1], added_line[head:][::-1])
    while head and (_is_in_word(removed_line, head) or _is_in_word(added_line, head)):
        head -= 1
    while tail and (
        _is_in_word(removed_line, len(removed_line) - tail) or _is_in_word(added_line, len(added_line) - tail)
    ):
        tail -= 1
    old, new = removed_line[head : len(removed_line) - tail], added_line[head : len(added_line) - tail]
    old_words, new_words = _split_words(old, head), _split_words(new, head)
    if max(len(old_words), len(new_words)) > _MAX_WORDS:
        spans = [((head, head + len(text)),) if text else () for text in (old, new)]
        return _drop_if_unlike(spans[0], spans[1], removed_line, added_line)
    matcher = SequenceMatcher(None, [w for _, w in old_words], [w for _, w in new_words], autojunk=False)
    codes = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    return _drop_if_unlike(
        _merge_ranges(old_words, [(i0, i1) for _, i0, i1, _, _ in codes]),
        _merge_ranges(new_words, [(j0, j1) for _, _, _, j0, j1 in codes]),
        removed_line,
        added_line,
    )


def _measure_common_head(one: str, other: str) -> int:
    limit = min(len(one), len(other))
    if one[:limit] == other[:limit]:
        return limit
    low, high = 0, limit
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle)
    return low


def _is_in_word(line: str, index: int) -> bool:
    """True if a cut before character `index` goes through a word."""
    return 0 < index < len(line) and all(
        character.isalnum() or character == "_" for character in line[index - 1 : index + 1]
    )


def _split_words(text: str, start: int) -> list[tuple[int, str]]:
    return [(start + match.start(), match.group()) for match in _WORD.finditer(text)]


def _merge_ranges(words: Sequence[tuple[int, str]], spans: Sequence[tuple[int, int]]) -> Marks:
    ranges: list[tuple[int, int]] = []
    for first, last in spans:
        if first == last:
            continue
        start, end = words[first][0], words[last - 1][0] + len(words[last - 1][1])
        if ranges and ranges[-1][1] == start:
            start = ranges.pop()[0]
        ranges.append((start, end))
    return tuple(ranges)


def _drop_if_unlike(old: Marks, new: Marks, removed_line: str, added_line: str) -> tuple[Marks, Marks]:
    shared_ratio = max(_measure_shared(old, removed_line), _measure_shared(new, added_line))
    return (old, new) if shared_ratio >= _MIN_SHARED else ((), ())


def _measure_shared(ranges: Marks, text: str) -> float:
    """Return the part of a line's visible characters that lies outside of the ranges, 0 … 1."""
    visible = len(text.strip()) or 1
    return 1 - sum(len(text[start:end].strip()) for start, end in ranges) / visible
