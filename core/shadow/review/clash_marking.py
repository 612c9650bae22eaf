"""Marking of the hunks that clash in a change in conflict; the others can be accepted all the same.

A hunk clashes if it shares a chunk of the three-way merge with what the user's file has there, or with another agent's
version. Where that can't be told (no text, a deletion), none is marked, and all of them count as clashing.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from msgspec.structs import replace

from core.protocol.review import Change, CompetingVersion, FileState, Hunk
from core.shadow.content.contents import Contents
from core.shadow.diff.hunks import split_lines
from core.shadow.diff.three_way_merge import MergeChunk, is_mergeable, split_chunks

LineRange = tuple[int, int]  # lines, 0-indexed, the end excluded


def mark_clashes(change: Change, contents: Contents, disk: FileState | None = None) -> Change:
    """Return a change in conflict with its hunks marked: those that clash with its competing versions, and with the
    file on `disk` (None: the disk holds the base)."""
    in_base = [] if disk is None else _find_base_ranges(contents, change.base, disk, change.pending)
    in_pending = [_find_pending_ranges(change, version, contents) for version in change.competing_versions]
    if in_base is None or None in in_pending:
        return _clear_clashes(change)
    places = [place for each in in_pending if each for place in each]
    hunks = tuple(
        replace(each, clashes=not each.moves and (_is_in_base(each, in_base) or _is_in_pending(each, places)))
        for each in change.hunks
    )
    found = replace(change, hunks=hunks)
    return found if any(each.clashes for each in hunks) and found.clean_hunks else _clear_clashes(change)


def _clear_clashes(change: Change) -> Change:
    return replace(change, hunks=tuple(replace(each, clashes=False) for each in change.hunks))


def _find_base_ranges(
    contents: Contents, base: FileState, mine: FileState, theirs: FileState
) -> list[LineRange] | None:
    """Return the ranges of the base where the two sides clash; None if they are no texts."""
    found = _split_chunks(contents, base, mine, theirs)
    return None if found is None else [(each.start, each.end) for each in found if each.clashes]


def _find_pending_ranges(change: Change, version: CompetingVersion, contents: Contents) -> list[LineRange] | None:
    """Return the ranges of the pending file where a competing version differs; None if they are no texts."""
    found = _split_chunks(contents, version.base, change.pending, version.theirs)
    return None if found is None else list(_list_own_ranges(found))


def _split_chunks(contents: Contents, base: FileState, mine: FileState, theirs: FileState) -> list[MergeChunk] | None:
    if not (base.kind == mine.kind == theirs.kind == "file"):
        return None
    sides = [contents.read(each) for each in (base, mine, theirs)]
    return split_chunks(*map(split_lines, sides)) if is_mergeable(*sides) else None


def _list_own_ranges(found: list[MergeChunk]) -> Iterator[LineRange]:
    line = 0
    for each in found:
        if each.clashes:
            yield line, line + len(each.mine)
        line += len(each.mine)


def _is_touching(start: int, end: int, place: LineRange) -> bool:
    return start <= place[1] and place[0] <= end


def _is_in_base(hunk: Hunk, places: list[LineRange]) -> bool:
    start = hunk.old_start - 1
    return any(map(partial(_is_touching, start, start + hunk.old_lines), places))


def _is_in_pending(hunk: Hunk, places: list[LineRange]) -> bool:
    start = hunk.new_start - 1
    return any(map(partial(_is_touching, start, start + hunk.new_lines), places))
