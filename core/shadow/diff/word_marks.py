"""Changed characters within a line: word by word, with bounded work, and none where little is alike."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

Marks = tuple[tuple[int, int], ...]

_WORD = re.compile(r"\w+|\s+|.", re.DOTALL)
_MAX_WORDS = 120  # of the changed middle, per line
_MIN_SHARED = 0.4  # share of a line's characters that must be the same for marks to say anything


def compute_marks(removed: str, added: str) -> tuple[Marks, Marks]:
    """Return the [start, end) ranges that differ, for both lines; empty if the lines have too little in common."""
    head = _measure_common_head(removed, added)
    tail = _measure_common_head(removed[head:][::-1], added[head:][::-1])
    while head and (_is_in_word(removed, head) or _is_in_word(added, head)):
        head -= 1
    while tail and (_is_in_word(removed, len(removed) - tail) or _is_in_word(added, len(added) - tail)):
        tail -= 1
    old, new = removed[head : len(removed) - tail], added[head : len(added) - tail]
    old_words, new_words = _split_words(old, head), _split_words(new, head)
    if max(len(old_words), len(new_words)) > _MAX_WORDS:
        spans = [((head, head + len(text)),) if text else () for text in (old, new)]
        return _drop_if_unlike(spans[0], spans[1], removed, added)
    matcher = SequenceMatcher(None, [w for _, w in old_words], [w for _, w in new_words], autojunk=False)
    codes = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    return _drop_if_unlike(
        _merge_ranges(old_words, [(i0, i1) for _, i0, i1, _, _ in codes]),
        _merge_ranges(new_words, [(j0, j1) for _, _, _, j0, j1 in codes]),
        removed,
        added,
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


def _is_in_word(line: str, at: int) -> bool:
    """True if a cut before character `at` goes through a word."""
    return 0 < at < len(line) and all(each.isalnum() or each == "_" for each in line[at - 1 : at + 1])


def _split_words(text: str, start: int) -> list[tuple[int, str]]:
    return [(start + found.start(), found.group()) for found in _WORD.finditer(text)]


def _merge_ranges(words: Sequence[tuple[int, str]], spans: Sequence[tuple[int, int]]) -> Marks:
    found: list[tuple[int, int]] = []
    for first, last in spans:
        if first == last:
            continue
        start, end = words[first][0], words[last - 1][0] + len(words[last - 1][1])
        if found and found[-1][1] == start:
            start = found.pop()[0]
        found.append((start, end))
    return tuple(found)


def _drop_if_unlike(old: Marks, new: Marks, removed: str, added: str) -> tuple[Marks, Marks]:
    shared = max(_measure_shared(old, removed), _measure_shared(new, added))
    return (old, new) if shared >= _MIN_SHARED else ((), ())


def _measure_shared(ranges: Marks, text: str) -> float:
    """Return the part of a line's visible characters that lies outside of the ranges, 0 … 1."""
    visible = len(text.strip()) or 1
    return 1 - sum(len(text[start:end].strip()) for start, end in ranges) / visible
