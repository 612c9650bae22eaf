"""Edits whose target is gone: made for one text of a file and applied to another, in which what they speak of was
removed or written anew, and in which something much like it may stand.

Nothing may come of such an edit: the file that it is expected to leave is the one that it found.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from benchmarks.edit_corpus.changes import Span
from benchmarks.edit_corpus.shapes import Made
from core.edits.drafts.line_keys import parse_line_key
from core.edits.indentation import measure_depth

AGED: Final = (
    "careful", "careful", "ends-changed", "begins-changed", "outline", "outline-ends-changed", "lead-only",
)  # fmt: skip
_WORD: Final = re.compile(r"[A-Za-z_]\w{2,}")
_NUMBER: Final = re.compile(r"\d+")


def age(edit: Made, chance: random.Random) -> Made | None:
    """An edit of a file that has lost its target since; None where the target can't be told from the rest of it."""
    end = "\r\n" if "\r\n" in edit.original else "\n"
    rows = edit.original.removesuffix(end).split(end)
    way = chance.choice(sorted(_WAYS))
    if not edit.has_markers:
        return None  # a range of lines, whatever they are
    remaining_rows, near = _WAYS[way](rows, edit.places, chance), ""
    if chance.random() < 0.5:
        near, remaining_rows = "near", _plant(rows, remaining_rows, edit.places, chance)
    if not remaining_rows or any(_stands(rows[place.first : place.last], remaining_rows) for place in edit.places):
        return None
    text = end.join(remaining_rows) + (end if edit.original.endswith(end) else "")
    traits = (f"stale-{way}", *([near] if near else []), *edit.traits)
    return edit._replace(original=text, expected=text, traits=traits, shape="stale")


def _removed(rows: Sequence[str], places: Sequence[Span], chance: random.Random) -> list[str]:
    """The file without the lines that the edit shows."""
    removed = {index for place in places for index in range(place.first, place.last)}
    return [row for index, row in enumerate(rows) if index not in removed]


def _undefined(rows: Sequence[str], places: Sequence[Span], chance: random.Random) -> list[str]:
    """The file without the things in which the edit lies: the lines from one head to what follows its end."""
    removed: set[int] = set()
    for place in places:
        first, last = place.first, place.last
        depth = min((measure_depth(row) for row in rows[first:last] if row.strip()), default=0)
        while first > 0 and (not rows[first - 1].strip() or measure_depth(rows[first - 1]) >= max(depth, 1)):
            first -= 1
        while last < len(rows) and (not rows[last].strip() or measure_depth(rows[last]) >= max(depth, 1)):
            last += 1
        removed.update(range(max(0, first - 1), last + 1))
    return [row for index, row in enumerate(rows) if index not in removed]


def _rewritten(rows: Sequence[str], places: Sequence[Span], chance: random.Random) -> list[str]:
    """The file with other words in every line that the edit shows and that has words."""
    rewritten = {index for place in places for index in range(place.first, place.last)}
    return [_reword(row, chance, often=0.7) if index in rewritten else row for index, row in enumerate(rows)]


def _plant(
    old: Sequence[str], remaining_rows: Sequence[str], places: Sequence[Span], chance: random.Random
) -> list[str]:
    """The file with something much like the target in it: the target with a word or number of most lines changed, of
    the first and the last always."""
    place_span = chance.choice(places)
    block = old[place_span.first : place_span.last]
    telling = [index for index, row in enumerate(block) if sum(map(str.isalnum, row)) >= 3]
    edges = {*telling[:1], *telling[-1:]}
    copy = [_reword(row, chance, often=0.7 if index in edges else 0.2) for index, row in enumerate(block)]
    index = min(chance.choice((place_span.first, chance.randint(0, len(remaining_rows)))), len(remaining_rows))
    return [*remaining_rows[:index], *copy, *remaining_rows[index:]]


def _reword(row: str, chance: random.Random, *, often: float) -> str:
    words = list(_WORD.finditer(row))
    numbers = list(_NUMBER.finditer(row))
    if numbers and chance.random() < often:
        number = chance.choice(numbers)
        return row[: number.start()] + str(int(number[0][:9]) + 1) + row[number.end() :]
    if not words or (often < 0.5 and chance.random() < 0.3):
        return row
    for word in reversed(words):
        if chance.random() < often or word is words[0]:
            row = row[: word.start()] + word[0][::-1] + row[word.end() :]
    return row


def _stands(block: Sequence[str], rows: Sequence[str]) -> bool:
    """Whether a part of the edit is still there: most of its lines that say something, its first or last one, or
    something that it defines by its name."""
    telling = [row.strip() for row in block if sum(map(str.isalnum, row)) >= 3]
    counter = Counter(row.strip() for row in rows)
    left = {row for row in telling if row in counter}
    edges = any(row in counter for row in (*telling[:1], *telling[-1:]))
    names = {key for row in telling if (key := parse_line_key(row)) and key.startswith("definition ")}
    has_name = not names.isdisjoint(parse_line_key(row) for row in rows)
    return not telling or edges or has_name or 2 * len(left) > len(set(telling))


_WAYS: Final[dict[str, Callable[[Sequence[str], Sequence[Span], random.Random], list[str]]]] = {
    "removed": _removed,
    "undefined": _undefined,
    "rewritten": _rewritten,
}
