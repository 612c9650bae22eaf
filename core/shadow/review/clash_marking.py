"""Marking of the hunks that clash in a change in conflict; the others can be accepted all the same.

A hunk clashes if it shares a chunk of the three-way merge with what the user's file has there, or with another agent's
version. Where that can't be told (no text, a deletion), none is marked, and all of them count as clashing.
"""

from __future__ import annotations

from itertools import accumulate, pairwise

from msgspec.structs import replace

from core.protocol.review import Change, CompetingVersion, FileState
from core.shadow.content.contents import Contents

LineRange = tuple[int, int]  # lines, 0-indexed, the end excluded


def mark_clashes(change: Change, contents: Contents, disk: FileState | None = None) -> Change:
    """Return a change in conflict with its hunks marked: those that clash with its competing versions, and with the
    file on `disk` (None: the disk holds the base)."""
    in_base = [] if disk is None else _find_base_ranges(change, disk, contents)
    in_pending = [_find_pending_ranges(change, version, contents) for version in change.competing_versions]
    if in_base is None or None in in_pending:
        return _clear_clashes(change)
    places = [line_range for ranges in in_pending if ranges for line_range in ranges]
    hunks = tuple(
        replace(
            hunk,
            clashes=not hunk.moves
            and (
                _is_touching(hunk.old_start, hunk.old_lines, in_base)
                or _is_touching(hunk.new_start, hunk.new_lines, places)
            ),
        )
        for hunk in change.hunks
    )
    marked_change = replace(change, hunks=hunks)
    return (
        marked_change if any(hunk.clashes for hunk in hunks) and marked_change.clean_hunks else _clear_clashes(change)
    )


def _clear_clashes(change: Change) -> Change:
    return replace(change, hunks=tuple(replace(hunk, clashes=False) for hunk in change.hunks))


def _find_base_ranges(change: Change, disk: FileState, contents: Contents) -> list[LineRange] | None:
    """Return the ranges of the base where the disk and the pending state clash; None if they are no texts."""
    chunks = contents.split_chunks(change.base, disk, change.pending)
    return None if chunks is None else [(chunk.start, chunk.end) for chunk in chunks if chunk.clashes]


def _find_pending_ranges(change: Change, version: CompetingVersion, contents: Contents) -> list[LineRange] | None:
    """Return the ranges of the pending file where a competing version differs; None if they are no texts."""
    chunks = contents.split_chunks(version.base, change.pending, version.theirs)
    if chunks is None:
        return None
    ends = list(accumulate((len(chunk.mine) for chunk in chunks), initial=0))
    return [(start, end) for chunk, (start, end) in zip(chunks, pairwise(ends), strict=True) if chunk.clashes]


def _is_touching(first: int, count: int, places: list[LineRange]) -> bool:
    """True if `count` lines from line `first` (from 1) on touch one of the ranges."""
    return any(first - 1 <= end and start <= first - 1 + count for start, end in places)
