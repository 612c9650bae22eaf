"""Two agents' versions of one path that clash: ours is pending, theirs is kept beside it until the user has settled it.

The parts of theirs that fit are in the pending state already, so what is left to settle is where both differ.
"""

from __future__ import annotations

from msgspec.structs import replace

from core.protocol.review import Change, FileState, Rival
from core.shadow.clashing import marked
from core.shadow.contents import Contents, Sides, for_todo

OVER_BASE = "the file was changed in the same place since that work began."


def clash_of(change: Change) -> str:
    """Why a change can't be promoted because of its rivals, "" = it has none."""
    if not change.rivals:
        return ""
    named = list(dict.fromkeys(each.todo or each.by for each in change.rivals))
    return f"{' and '.join(named)} changed the same place in another way."


def otherwise(change: Change) -> str:
    """Why it can't be promoted, whatever becomes of its rivals; "" = only they are in the way."""
    return "" if change.conflict == clash_of(change) else change.conflict


def clashes_with(change: Change | None, by: str) -> bool:
    """Whether what `by` made of a path waits for the user: beside what is pending, or over a file that has moved on."""
    return change is not None and (bool(otherwise(change)) or any(each.by == by for each in change.rivals))


def with_rivals(change: Change, rivals: tuple[Rival, ...], contents: Contents) -> Change:
    """A change as it was compared anew, with these rivals. When nothing of ours is left, theirs takes its place, over
    what they began with, in conflict with the file."""
    if not rivals:
        return change
    if change.base != change.pending:
        return _beside(change, rivals, contents)
    first, rest = rivals[0], rivals[1:]
    if (merged := contents.merge(first.base, change.base, first.theirs)) is not None:
        found = contents.change(change.path, Sides(base=change.base, pending=merged))
        return with_rivals(replace(found, origin=change.origin), rest, contents)
    found = contents.change(change.path, Sides(base=first.base, pending=first.theirs))
    return replace(found, origin=change.origin, conflict=OVER_BASE, rivals=rest)


def _beside(change: Change, rivals: tuple[Rival, ...], contents: Contents) -> Change:
    """Ours is pending; those of theirs that fit by now are in it."""
    pending, left = reconciled(change.pending, rivals, contents)
    if pending != change.pending:
        found = contents.change(change.path, Sides(base=change.base, pending=pending), change.hunks, change.moved)
        todos = "" if len(rivals) > 1 else rivals[0].todo
        hunks = for_todo(found.hunks, change.hunks, todos)
        change = replace(found, hunks=hunks, origin=change.origin, conflict=change.conflict, apart=change.apart)
    found = replace(change, rivals=left)
    found = replace(found, conflict=change.conflict or clash_of(found))
    return marked(found, contents) if left and found.conflict == clash_of(found) else found


def reconciled(
    pending: FileState, rivals: tuple[Rival, ...], contents: Contents
) -> tuple[FileState, tuple[Rival, ...]]:
    """What is pending with all of the rivals that fit by now, and those that do not; of these, the parts that fit."""
    left = []
    for each in rivals:
        merged = contents.merge(each.base, pending, each.theirs)
        if merged is None:
            left.append(each)
            merged = contents.merge(each.base, pending, each.theirs, prefer_ours=True)
        pending = merged or pending
    return pending, tuple(left)
