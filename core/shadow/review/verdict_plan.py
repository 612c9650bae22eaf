"""Verdicts that are planned and not yet carried out: their hunks, and what a rename makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from core.errors import CommandRejected
from core.protocol.events import AnyEvent, ChangeProposed, ChangeResolved, ChangeRevised
from core.protocol.renames import find_renames
from core.protocol.review import Change, Hunk, Verdict, VerdictRecord


class PlannedVerdict(Struct, frozen=True):
    """A planned verdict. `left`: the change that stays pending after it; None: nothing."""

    change: Change
    record: VerdictRecord
    left: Change | None


def find_hunks(change: Change, ids: Iterable[str]) -> tuple[Hunk, ...]:
    """Return the hunks that a verdict is on (none named: all). Raises `CommandRejected` if one is not pending."""
    wanted = set(ids)
    found = tuple(hunk for hunk in change.hunks if not wanted or hunk.id in wanted)
    if missing := wanted - {hunk.id for hunk in found}:
        raise CommandRejected(
            f"{change.path} has no pending hunk {', '.join(sorted(missing))}.",
            hint="The change has moved on; look at it again.",
            code="hunk_unknown",
        )
    return found


def include_rename(change: Change, ids: tuple[str, ...], verdict: Verdict) -> tuple[str, ...]:
    """Return the hunk ids with the rename: a hunk of a renamed file is only accepted together with the rename, and the
    rename only rejected together with all hunks."""
    moves = next((each.id for each in change.hunks if each.moves), "")
    if not moves or (verdict == "reject" and moves not in ids):
        return ids
    return (*ids, moves) if verdict == "accept" else ()


def is_apart_from_rename(change: Change, ids: tuple[str, ...]) -> bool:
    """True if a verdict on these hunks leaves the other path of a rename alone."""
    rest = [each for each in change.hunks if each.id not in ids]
    return bool(rest) and (change.source is None or any(each.moves for each in rest))


def link_rename_verdicts(changes: Mapping[str, Change], planned: Iterable[PlannedVerdict]) -> list[PlannedVerdict]:
    """Return the same verdicts in the same order; those on both paths of a rename name each other."""
    found = {each.change.path: each for each in planned}
    for new, old in find_renames(changes).items():
        one, other = found.get(new), found.get(old)
        if one and other and not other.left and (not one.left or one.left.base.kind != "absent"):
            record = replace(one.record, moved_with=other.record.id, renamed_from=old)
            found[new] = replace(one, record=record)
            found[old] = replace(other, record=replace(other.record, moved_with=record.id))
    return list(found.values())


def build_pending_events(change: Change, *, known: bool) -> list[AnyEvent]:
    """Return the events after which a change is pending; `known`: something was pending there already."""
    if change.base == change.pending:
        return [ChangeResolved(path=change.path)] if known else []
    return [ChangeRevised(change=change) if known else ChangeProposed(change=change)]
