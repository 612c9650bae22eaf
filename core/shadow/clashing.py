"""Which hunks of a change in conflict are those that clash: the others can be accepted all the same.

A hunk clashes where it stands in one stretch (see `merge`) with what the user's file has there, or with what another
agent made of it. Where that can't be told (no text, a deletion), none is marked, and all of them count as clashing.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from msgspec.structs import replace

from core.protocol.review import Change, FileState, Hunk, Rival
from core.shadow.contents import Contents
from core.shadow.hunks import split_lines
from core.shadow.merge import Stretch, mergeable, stretches

Place = tuple[int, int]  # lines, 0-indexed, the end excluded


def marked(change: Change, contents: Contents, disk: FileState | None = None) -> Change:
    """A change in conflict with its hunks marked: those that clash with its rivals, and with the file on `disk`, if
    that is not the base (None: it is)."""
    in_base = [] if disk is None else _places(contents, change.base, disk, change.pending)
    in_pending = [_beside(change, rival, contents) for rival in change.rivals]
    if in_base is None or None in in_pending:
        return _all(change)
    places = [place for each in in_pending if each for place in each]
    hunks = tuple(
        replace(each, clashes=not each.moves and (_in_base(each, in_base) or _in_pending(each, places)))
        for each in change.hunks
    )
    found = replace(change, hunks=hunks)
    return found if any(each.clashes for each in hunks) and found.clean else _all(change)


def _all(change: Change) -> Change:
    return replace(change, hunks=tuple(replace(each, clashes=False) for each in change.hunks))


def _places(contents: Contents, base: FileState, mine: FileState, theirs: FileState) -> list[Place] | None:
    """The places of the base at which the two differ from each other; None: these are no texts."""
    found = _stretches(contents, base, mine, theirs)
    return None if found is None else [(each.start, each.end) for each in found if each.clashes]


def _beside(change: Change, rival: Rival, contents: Contents) -> list[Place] | None:
    """The places of the pending file at which a rival wants something else."""
    found = _stretches(contents, rival.base, change.pending, rival.theirs)
    return None if found is None else list(_of_mine(found))


def _stretches(contents: Contents, base: FileState, mine: FileState, theirs: FileState) -> list[Stretch] | None:
    if not (base.kind == mine.kind == theirs.kind == "file"):
        return None
    sides = [contents.data(each) for each in (base, mine, theirs)]
    return stretches(*map(split_lines, sides)) if mergeable(*sides) else None


def _of_mine(found: list[Stretch]) -> Iterator[Place]:
    line = 0
    for each in found:
        if each.clashes:
            yield line, line + len(each.mine)
        line += len(each.mine)


def _touches(start: int, end: int, place: Place) -> bool:
    return start <= place[1] and place[0] <= end


def _in_base(hunk: Hunk, places: list[Place]) -> bool:
    start = hunk.old_start - 1
    return any(map(partial(_touches, start, start + hunk.old_lines), places))


def _in_pending(hunk: Hunk, places: list[Place]) -> bool:
    start = hunk.new_start - 1
    return any(map(partial(_touches, start, start + hunk.new_lines), places))
