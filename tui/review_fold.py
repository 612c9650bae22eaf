"""The screen's fold of the pending review: what waits, what was said about it, and which turn it came from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from core.protocol import events

if TYPE_CHECKING:
    from tui.state import Topic, ViewState


def fold_review(state: ViewState, event: events.AnyEvent) -> bool:
    """Take in an event that is about changes or what was said of them. Whether it was one."""
    match event:
        case events.ChangeProposed(change=change) | events.ChangeRevised(change=change):
            state.changes[change.path] = change
            state.touched_paths.add(change.path)
        case events.ChangeResolved(path=path):
            state.changes.pop(path, None)
            state.touched_paths.add(path)
        case events.ChangeConflicted(path=path, reason=reason):
            if path in state.changes:
                state.changes[path] = replace(state.changes[path], conflict=reason)
        case events.VerdictGiven(verdict=verdict):
            state.verdict_ids.append(verdict.id)
        case events.VerdictUndone(id=verdict_id):
            state.verdict_ids = [each for each in state.verdict_ids if each != verdict_id]
        case _:
            return _fold_around(state, event)
    return True


def fold_refused(state: ViewState, event: events.ErrorRaised) -> frozenset[Topic]:
    """What a verdict failed for, until the review has shown it where the verdict was given."""
    if not event.path:
        return frozenset({"blocks", "status"})
    state.refusals[event.path] = f"{event.message} {event.hint}".strip()
    return frozenset({"blocks", "status", "review"})


def _fold_around(state: ViewState, event: events.AnyEvent) -> bool:
    match event:
        case events.LayersChanged(bulks=bulks):
            # what is judged file by file has left its bulk, which may be nothing but a directory then
            state.bulks = tuple(
                each for each in bulks if each.files or each.deleted or each.needs_verdict or each.conflict
            )
        case events.CheckRecorded(check=check):
            state.changes = {
                path: replace(each, check=check) if check.covers(path) else each for path, each in state.changes.items()
            }
        case events.HunkCommented(comment=comment) | events.PlanCommented(comment=comment):
            state.comments.pop((comment.path, comment.hunk), None)
            if comment.text:
                state.comments[comment.path, comment.hunk] = comment
        case events.CommentsSent():
            state.comments.clear()
        case _:
            return False
    return True
