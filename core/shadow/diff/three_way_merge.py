"""Three-way merge by lines (the chunks of diff3; Khanna, Kunal, Pierce: "A Formal Investigation of Diff3", 2007)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from core.shadow.diff.hunks import find_text_regions, is_divisible
from core.shadow.diff.text_lines import split_lines


class SideEdit(Struct, frozen=True):
    """One side's edit: base[start:end] becomes `lines`."""

    start: int
    end: int
    lines: list[bytes]


class MergeChunk(Struct, frozen=True):
    """base[start:end] as merged (`mine` and `theirs` are equal), or, where it clashes, as each side has it."""

    start: int
    end: int
    mine: list[bytes]
    theirs: list[bytes]
    clashes: bool = False


def merge_three_way(base: bytes, ours: bytes, theirs: bytes, *, prefer_ours: bool = False) -> bytes | None:
    """Return the merge, or None where both sides changed the same or touching lines differently.

    `prefer_ours`: take our side there instead (and of files that can't be merged by lines).
    """
    if theirs in (ours, base):
        return ours
    if ours == base:
        return theirs
    if not is_mergeable(base, ours, theirs):
        return ours if prefer_ours else None
    found = split_chunks(base, ours, theirs)
    if not prefer_ours and any(each.clashes for each in found):
        return None
    return b"".join(line for each in found for line in each.mine)


def is_mergeable(base: bytes, ours: bytes, theirs: bytes) -> bool:
    """True if all three are text in encodings that can stand in one file."""
    return is_divisible(base, ours) and is_divisible(base, theirs) and is_divisible(ours, theirs)


def split_chunks(old: bytes, mine: bytes, theirs: bytes) -> list[MergeChunk]:
    """Split the whole base into chunks, in order. A side's edits that touch none of the other's stand in both sides."""
    found: list[MergeChunk] = []
    base, at = split_lines(old), 0
    for own, others in _group_touching(_list_edits(old, mine), _list_edits(old, theirs)):
        start = min(each.start for each in (*own, *others))
        end = max(each.end for each in (*own, *others))
        if start > at:
            found.append(MergeChunk(at, start, list(base[at:start]), list(base[at:start])))
        left, right = _apply_edits(base, start, end, own), _apply_edits(base, start, end, others)
        if own and others and left != right:
            found.append(MergeChunk(start, end, left, right, clashes=True))
        else:
            agreed = left if own else right
            found.append(MergeChunk(start, end, agreed, agreed))
        at = end
    if at < len(base):
        found.append(MergeChunk(at, len(base), list(base[at:]), list(base[at:])))
    return found


def _apply_edits(base: Sequence[bytes], start: int, end: int, edits: list[SideEdit]) -> list[bytes]:
    lines: list[bytes] = []
    at = start
    for each in edits:
        lines += base[at : each.start]
        lines += each.lines
        at = each.end
    return [*lines, *base[at:end]]


def _list_edits(base: bytes, side: bytes) -> list[SideEdit]:
    old, new = split_lines(base), split_lines(side)
    return [SideEdit(a0, a1, new[b0:b1]) for a0, a1, b0, b1 in find_text_regions(base, side, old, new)]


def _group_touching(ours: list[SideEdit], theirs: list[SideEdit]) -> Iterator[tuple[list[SideEdit], list[SideEdit]]]:
    """Yield the edits of both sides in groups that touch; edits of one side never touch each other."""
    group: tuple[list[SideEdit], list[SideEdit]] = ([], [])
    reach = -1
    both = [*((each, 0) for each in ours), *((each, 1) for each in theirs)]
    for each, side in sorted(both, key=lambda each: (each[0].start, each[0].end, each[1])):
        if each.start > reach and (group[0] or group[1]):
            yield group
            group = ([], [])
        group[side].append(each)
        reach = max(reach, each.end)
    if group[0] or group[1]:
        yield group
