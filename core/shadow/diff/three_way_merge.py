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
    """base[start:end] as merged (`mine` and `theirs` are equal), or, where it clashes, the versions of both sides."""

    start: int
    end: int
    mine: list[bytes]
    theirs: list[bytes]
    clashes: bool = False


def merge_three_way(base: bytes, ours: bytes, theirs: bytes, *, prefer_ours: bool = False) -> bytes | None:
    """Return the merge, or None where both sides changed the same or adjacent lines differently.

    `prefer_ours`: take our side there instead, and of files that cannot be merged by lines.
    """
    if theirs in (ours, base):
        return ours
    if ours == base:
        return theirs
    if not is_mergeable(base, ours, theirs):
        return ours if prefer_ours else None
    chunks = split_chunks(base, ours, theirs)
    if not prefer_ours and any(chunk.clashes for chunk in chunks):
        return None
    return b"".join(line for chunk in chunks for line in chunk.mine)


def is_mergeable(base: bytes, ours: bytes, theirs: bytes) -> bool:
    """True if all three are text in compatible encodings."""
    return is_divisible(base, ours) and is_divisible(base, theirs) and is_divisible(ours, theirs)


def split_chunks(old: bytes, ours: bytes, theirs: bytes) -> list[MergeChunk]:
    """Split the whole base into chunks, in order. An edit that touches no edit of the other side is in both sides."""
    chunks: list[MergeChunk] = []
    base, position = split_lines(old), 0
    for own_edits, others in _group_touching(_list_edits(old, ours), _list_edits(old, theirs)):
        start = min(edit.start for edit in (*own_edits, *others))
        end = max(edit.end for edit in (*own_edits, *others))
        if start > position:
            chunks.append(MergeChunk(position, start, list(base[position:start]), list(base[position:start])))
        left_lines, right = _apply_edits(base, start, end, own_edits), _apply_edits(base, start, end, others)
        if own_edits and others and left_lines != right:
            chunks.append(MergeChunk(start, end, left_lines, right, clashes=True))
        else:
            lines = left_lines if own_edits else right
            chunks.append(MergeChunk(start, end, lines, lines))
        position = end
    if position < len(base):
        chunks.append(MergeChunk(position, len(base), list(base[position:]), list(base[position:])))
    return chunks


def _apply_edits(base: Sequence[bytes], start: int, end: int, edits: list[SideEdit]) -> list[bytes]:
    lines: list[bytes] = []
    position = start
    for edit in edits:
        lines += base[position : edit.start]
        lines += edit.lines
        position = edit.end
    return [*lines, *base[position:end]]


def _list_edits(base: bytes, side: bytes) -> list[SideEdit]:
    old, new = split_lines(base), split_lines(side)
    return [SideEdit(a0, a1, new[b0:b1]) for a0, a1, b0, b1 in find_text_regions(base, side, old, new)]


def _group_touching(
    our_edits: list[SideEdit], their_edits: list[SideEdit]
) -> Iterator[tuple[list[SideEdit], list[SideEdit]]]:
    """Yield the edits of both sides in groups that touch; edits of one side never touch."""
    group: tuple[list[SideEdit], list[SideEdit]] = ([], [])
    group_end = -1
    both = [*((edit, 0) for edit in our_edits), *((edit, 1) for edit in their_edits)]
    for edit, side in sorted(both, key=lambda pair: (pair[0].start, pair[0].end, pair[1])):
        if edit.start > group_end and (group[0] or group[1]):
            yield group
            group = ([], [])
        group[side].append(edit)
        group_end = max(group_end, edit.end)
    if group[0] or group[1]:
        yield group
