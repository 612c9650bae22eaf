"""Costs of taking one line for another, of a line that comes and of one that goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from core.text.lines import count_shared_head
from core.text.similarity import measure_similarity

CHANGE: Final = 20  # a place where something changes at all
CONTEXT: Final = 25  # each line that is missing to three of context, on either side
WEAK: Final = 25  # context in which no line tells anything
IDLE: Final = 100  # a piece that changes nothing
_CONTEXT_LINES: Final = 3
_PLAIN, _NEW, _KNOWN, _TWICE, _GONE = 1, 3, 15, 9, 2
_ALIKE: Final = 0.7
_VARIED: Final = 30
LEAST: Final = 6  # a line that becomes another one of its kind, at least
_MOST: Final = 20  # lines that only come or only go
_COPY: Final = 60  # those of them that the file has elsewhere: a copy, however long it is
_TELLING: Final = 3  # letters and digits


@lru_cache(50_000)
def is_telling(line: str) -> bool:
    """True if a line says more than that something begins or ends."""
    return sum(map(str.isalnum, line)) >= _TELLING


def compute_insertion_cost(line: str, counts: Counter[str]) -> int:
    """Compute the cost of a new line: more, when the file has that very line, as it was probably meant to be that."""
    if not is_telling(line):
        return _PLAIN
    return {0: _NEW, 1: _KNOWN, 2: _TWICE}.get(counts[line], _NEW)


def compute_deletion_cost(line: str) -> int:
    """Compute the cost of a line that goes."""
    return _GONE if is_telling(line) else _PLAIN


@lru_cache(100_000)
def compute_replacement_cost(new: str, old: str) -> int | None:
    """Compute the cost of an old line becoming a new one of its kind; None for lines that have nothing in common."""
    one, other = new.strip(), old.strip()
    if one == other:
        return LEAST
    if not (is_telling(one) and is_telling(other)):
        return None
    if 2 * min(len(one), len(other)) < _ALIKE * (len(one) + len(other)):
        return None
    similarity = measure_similarity(one, other)
    return LEAST + int((1 - similarity) * _VARIED) if similarity >= _ALIKE else None


def compute_placement_cost(cost: int, new: Sequence[str], old: Sequence[str], counts: Counter[str]) -> int:
    """Compute the cost of a piece in its place: of changing the lines there, and of what its context lacks. Lines
    that only come or only go between context are one change, however many they are."""
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
            cost, CHANGE + min(_COPY, known_cost) + min(_MOST, _NEW * len(added_rows) + _GONE * len(removed_rows))
        )
    return cost + _compute_side_cost(new[:head], new, old, 1) + _compute_side_cost(new[len(new) - tail :], new, old, -2)


def compute_missing_context_cost(new: Sequence[str], old: Sequence[str]) -> int:
    """Compute the cost of what the context at the start of a piece lacks, wherever it ends."""
    head = count_shared_head(new, old)
    return 0 if head == len(new) or new[0][:1] == "\0" else _compute_side_cost(new[:head], new, old, 1)


def _compute_side_cost(run: Sequence[str], new: Sequence[str], old: Sequence[str], neighbour_index: int) -> int:
    if any(row[:1] == "\0" for row in run):
        cut = len(run) == 1 < len(new) and new[neighbour_index] != old[neighbour_index] and new[neighbour_index] in old
        return CONTEXT * _CONTEXT_LINES if cut else 0
    missing = _CONTEXT_LINES - min(_CONTEXT_LINES, len(run))
    return CONTEXT * missing + (0 if any(is_telling(row) for row in run) else WEAK)
