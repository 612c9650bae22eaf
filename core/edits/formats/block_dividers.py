"""The `=======` that divides a block whose content has such lines of its own: merge conflicts, underlined headings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

Parts = tuple[str, str]

_CONFLICT = re.compile(r"(<{7}|\|{7}|={7}|>{7})(?: .*)?$")
_NEXT: Final = {"<": "|=", "|": "=", "=": ">", ">": "<"}


class BlockSplits(NamedTuple):
    """`certain` is the reading by conflict markers (one at most); `possible` are those that the file has to decide."""

    certain: tuple[Parts, ...]
    possible: tuple[Parts, ...]


def split_at_dividers(body: Sequence[str], dividers: Sequence[int]) -> BlockSplits:
    """The ways to cut the lines of a block into (search, replace) at one of its dividers."""
    halves = [(body[:place], body[place + 1 :]) for place in dividers]
    if len(dividers) == 1:
        return BlockSplits((_join_parts(*halves[0]),), ())
    certain = [_join_parts(*half) for half in halves if all(_is_conflict(part) for part in half)]
    if len(certain) == 1:
        return BlockSplits(tuple(certain), ())
    possible = [_join_parts(*half) for half in halves if all(_is_underlined(part) for part in half)]
    return BlockSplits((), tuple(certain or possible))


def _join_parts(search: Sequence[str], replace: Sequence[str]) -> Parts:
    return "".join(search), "".join(replace)


def _find_conflict_signs(part: Sequence[str]) -> Iterator[str]:
    for row in part:
        found = _CONFLICT.match(row.rstrip("\r\n"))
        if found:
            yield found[1][0]


def _is_conflict(part: Sequence[str]) -> bool:
    """True if the conflict markers of a part follow each other as they do in a file, and no ======= stands alone."""
    tokens = list(_find_conflict_signs(part))
    return tokens != ["="] and all(after in _NEXT[before] for before, after in pairwise(tokens))


def _is_underlined(part: Sequence[str]) -> bool:
    """True if every ======= of a part lies under a line of about its length."""
    rows = ["", *(row.rstrip("\r\n") for row in part)]
    return all(
        before.strip() and not before.startswith("=") and abs(len(before.rstrip()) - len(row)) <= 3
        for before, row in pairwise(rows)
        if re.fullmatch(r"={5,}\s*", row)
    )
