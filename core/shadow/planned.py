"""A verdict on one change, worked out and not yet carried out, and the events by which it comes to be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from core.protocol.events import AnyEvent, ChangeProposed, ChangeResolved, ChangeRevised, FileWritten, VerdictGiven
from core.protocol.moves import renames
from core.protocol.review import Change, Verdict, VerdictRecord


class Planned(Struct, frozen=True):
    """`left`: what waits of the change after the verdict; None: nothing."""

    change: Change
    record: VerdictRecord
    left: Change | None


def with_rename(change: Change, ids: tuple[str, ...], verdict: Verdict) -> tuple[str, ...]:
    """Of a renamed file a hunk can only be accepted together with the rename, and that only be rejected with all."""
    moves = next((each.id for each in change.hunks if each.moves), "")
    if not moves or (verdict == "reject" and moves not in ids):
        return ids
    return (*ids, moves) if verdict == "accept" else ()


def is_apart(change: Change, ids: tuple[str, ...]) -> bool:
    """Whether a verdict on these hunks leaves the other path of a rename alone."""
    rest = [each for each in change.hunks if each.id not in ids]
    return bool(rest) and (change.source is None or any(each.moves for each in rest))


def paired(changes: Mapping[str, Change], planned: Iterable[Planned]) -> list[Planned]:
    """The same, in the same order; verdicts on both paths of a rename know each other."""
    found = {each.change.path: each for each in planned}
    for new, old in renames(changes).items():
        one, other = found.get(new), found.get(old)
        if one and other and not other.left and (not one.left or one.left.base.kind != "absent"):
            record = replace(one.record, moved_with=other.record.id, renamed_from=old)
            found[new] = replace(one, record=record)
            found[old] = replace(other, record=replace(other.record, moved_with=record.id))
    return list(found.values())


def verdict_events(planned: Planned) -> list[AnyEvent]:
    """What a verdict means, in the order that survives an interruption: the verdict itself comes last."""
    path, record = planned.change.path, planned.record
    events: list[AnyEvent] = []
    if record.verdict == "accept":
        events.append(FileWritten(path=path, state=record.base_after, before=record.base_before))
    events.append(ChangeRevised(change=planned.left) if planned.left else ChangeResolved(path=path))
    events.append(VerdictGiven(verdict=record))
    return events


def pending_events(change: Change, *, known: bool) -> list[AnyEvent]:
    """What is pending again; `known`: something was pending there already."""
    if change.base == change.pending:
        return [ChangeResolved(path=change.path)] if known else []
    return [ChangeRevised(change=change) if known else ChangeProposed(change=change)]
