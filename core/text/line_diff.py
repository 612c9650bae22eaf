"""Differences between two sequences of lines: their shared ends, and what becomes what between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

Opcode = tuple[str, int, int, int, int]
_MAX_COMPARED = 250_000  # pairs of lines


def diff_lines(old: Sequence[str], new: Sequence[str]) -> Iterator[Opcode]:
    """Diff like `SequenceMatcher.get_opcodes`; shared ends come off first, and a huge middle is not compared."""
    head, tail = count_shared_ends(old, new)
    i2, j2 = len(old) - tail, len(new) - tail
    if head:
        yield "equal", 0, head, 0, head
    if (i2 - head) * (j2 - head) > _MAX_COMPARED:
        yield "replace", head, i2, head, j2
    else:
        inner = SequenceMatcher(None, old[head:i2], new[head:j2], autojunk=False).get_opcodes()
        for tag, a1, a2, b1, b2 in inner:
            yield tag, a1 + head, a2 + head, b1 + head, b2 + head
    if tail:
        yield "equal", i2, len(old), j2, len(new)


def count_shared_ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Number of lines (or characters of two strings) that both begin with, and of further ones that both end with."""
    head = count_shared_head(old, new)
    return head, count_shared_head(old[head:][::-1], new[head:][::-1])


def count_shared_head(first: Sequence[str], second: Sequence[str]) -> int:
    """Number of lines (or characters of two strings) that both begin with."""
    count = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        count += 1
    return count
