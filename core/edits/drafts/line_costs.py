"""Costs of replacing a line by another, of adding a line and of deleting one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from core.text.lines import count_shared_head
from core.text.similarity import measure_similarity

CHANGE: Final = 20  # of every change, whatever it is
CONTEXT: Final = 25  # of every line short of three lines of context, on either side
WEAK: Final = 25  # of context without an informative line
IDLE: Final = 100  # a piece that changes nothing
_CONTEXT_LINES: Final = 3  # expected on either side of a change
_PLAIN, _NEW, _KNOWN, _TWICE, _DELETED = 1, 3, 15, 9, 2
_ALIKE: Final = 0.7  # similarity of two lines of one kind
_VARIATION: Final = 30  # added cost of a line that is not similar at all
LEAST: Final = 6  # the least cost of a line that becomes another one of its kind
_MOST: Final = 20  # the most that lines cost which are only added or only deleted
_COPY: Final = 60  # the most that copies of lines cost which the file has elsewhere
_TELLING: Final = 3  # letters and digits of an informative line


@lru_cache(50_000)
def is_informative(line: str) -> bool:
    """True if a line has at least three letters or digits: more than the start or the end of a block."""
    return sum(map(str.isalnum, line)) >= _TELLING


def compute_insertion_cost(line: str, counts: Counter[str]) -> int:
    """Compute the cost of a new line: higher if the file has that very line, which the draft then probably means."""
    if not is_informative(line):
        return _PLAIN
    return {0: _NEW, 1: _KNOWN, 2: _TWICE}.get(counts[line], _NEW)


def compute_deletion_cost(line: str) -> int:
    """Compute the cost of a deleted line."""
    return _DELETED if is_informative(line) else _PLAIN


@lru_cache(100_000)
def compute_replacement_cost(new: str, old: str) -> int | None:
    """Compute the cost of an old line becoming a new one of its kind; None for lines that have nothing in common."""
    one, other = new.strip(), old.strip()
    if one == other:
        return LEAST
    if not (is_informative(one) and is_informative(other)):
        return None
    if 2 * min(len(one), len(other)) < _ALIKE * (len(one) + len(other)):
        return None
    similarity = measure_similarity(one, other)
    return LEAST + int((1 - similarity) * _VARIATION) if similarity >= _ALIKE else None


def compute_placement_cost(cost: int, new: Sequence[str], old: Sequence[str], counts: Counter[str]) -> int:
    """Compute the cost of a piece in a position: of changing the lines there, and of missing context. Lines that are
    only added or only deleted between context are one change, however many they are."""
    size, head = min(len(new), len(old)), count_shared_head(new, old)
    if head == len(new) == len(old):
        return IDLE
    tail = count_shared_head(new[::-1], old[::-1])
    if head + tail >= size:
        added_rows, removed_rows = new[head : head + len(new) - size], old[head : head + len(old) - size]
        known_cost = sum(
            insertion_cost
            for insertion_cost in (compute_insertion_cost(row, counts) for row in added_rows)
            if insertion_cost > _NEW
        )
        cost = min(
            cost, CHANGE + min(_COPY, known_cost) + min(_MOST, _NEW * len(added_rows) + _DELETED * len(removed_rows))
        )
    return cost + _compute_side_cost(new[:head], new, old, 1) + _compute_side_cost(new[len(new) - tail :], new, old, -2)


def compute_missing_context_cost(new: Sequence[str], old: Sequence[str]) -> int:
    """Compute the cost of missing context at the start of a piece, wherever the piece ends."""
    head = count_shared_head(new, old)
    return 0 if head == len(new) or new[0][:1] == "\0" else _compute_side_cost(new[:head], new, old, 1)


def _compute_side_cost(run: Sequence[str], new: Sequence[str], old: Sequence[str], neighbour_index: int) -> int:
    if any(row[:1] == "\0" for row in run):
        cut = len(run) == 1 < len(new) and new[neighbour_index] != old[neighbour_index] and new[neighbour_index] in old
        return CONTEXT * _CONTEXT_LINES if cut else 0
    missing = _CONTEXT_LINES - min(_CONTEXT_LINES, len(run))
    return CONTEXT * missing + (0 if any(is_informative(row) for row in run) else WEAK)
