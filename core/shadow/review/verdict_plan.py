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
    hunk_ids = set(ids)
    hunks = tuple(hunk for hunk in change.hunks if not hunk_ids or hunk.id in hunk_ids)
    if missing := hunk_ids - {hunk.id for hunk in hunks}:
        raise CommandRejected(
            f"{change.path} has no pending hunk {', '.join(sorted(missing))}.",
            hint="The change has moved on; look at it again.",
            code="hunk_unknown",
        )
    return hunks


def include_rename(change: Change, ids: tuple[str, ...], verdict: Verdict) -> tuple[str, ...]:
    """Return the hunk ids with the rename: a hunk of a renamed file is only accepted together with the rename, and the
    rename only rejected together with all hunks."""
    moves = next((hunk.id for hunk in change.hunks if hunk.moves), "")
    if not moves or (verdict == "reject" and moves not in ids):
        return ids
    return (*ids, moves) if verdict == "accept" else ()


def is_apart_from_rename(change: Change, ids: tuple[str, ...]) -> bool:
    """True if a verdict on these hunks leaves the other path of a rename alone."""
    rest = [hunk for hunk in change.hunks if hunk.id not in ids]
    return bool(rest) and (change.source is None or any(hunk.moves for hunk in rest))


def link_rename_verdicts(
    changes: Mapping[str, Change], planned_verdicts: Iterable[PlannedVerdict]
) -> list[PlannedVerdict]:
    """Return the same verdicts in the same order; those on both paths of a rename name each other."""
    verdicts_by_path = {planned_verdict.change.path: planned_verdict for planned_verdict in planned_verdicts}
    for new, old in find_renames(changes).items():
        one, other = verdicts_by_path.get(new), verdicts_by_path.get(old)
        if one and other and not other.left and (not one.left or one.left.base.kind != "absent"):
            record = replace(one.record, moved_with=other.record.id, renamed_from=old)
            verdicts_by_path[new] = replace(one, record=record)
            verdicts_by_path[old] = replace(other, record=replace(other.record, moved_with=record.id))
    return list(verdicts_by_path.values())


def build_pending_events(change: Change, *, is_revision: bool) -> list[AnyEvent]:
    """Return the events after which a change is pending; `is_revision`: something was pending there already."""
    if change.base == change.pending:
        return [ChangeResolved(path=change.path)] if is_revision else []
    return [ChangeRevised(change=change) if is_revision else ChangeProposed(change=change)]
