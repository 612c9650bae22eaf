"""The review as the fold of its events: which path is pending, and which verdicts stand."""

from __future__ import annotations

from msgspec.structs import replace

from core.protocol.events import (
    AnyEvent,
    ChangeConflicted,
    ChangeProposed,
    ChangeResolved,
    ChangeRevised,
    CheckRecorded,
    CommentsSent,
    HunkCommented,
    LayersChanged,
    VerdictGiven,
    VerdictUndone,
)
from core.protocol.review import Bulk, Change, Comment, VerdictRecord


class ReviewState:
    """`changes` by path; `verdicts` in the order given, without those that were undone; `layers` that commands left
    behind, lowest first, and the `bulks` in them; `comments` by path and hunk that the model has not been sent. Only
    `apply` alters it; `version` says whether it did."""

    def __init__(self) -> None:
        self.version = 0
        self.changes: dict[str, Change] = {}
        self.verdicts: list[VerdictRecord] = []
        self.layers: tuple[str, ...] = ()
        self.bulks: tuple[Bulk, ...] = ()
        self.comments: dict[tuple[str, str], Comment] = {}

    def apply(self, event: AnyEvent) -> None:
        """Take in one event; those that are not about the review are passed over."""
        self.version += 1
        match event:
            case ChangeProposed(change=change) | ChangeRevised(change=change):
                self.changes[change.path] = change
            case ChangeResolved(path=path):
                self.changes.pop(path, None)
            case ChangeConflicted(path=path, reason=reason):
                if path in self.changes:
                    self.changes[path] = replace(self.changes[path], conflict=reason)
            case VerdictGiven(verdict=verdict):
                self.verdicts.append(verdict)
            case VerdictUndone(id=verdict_id):
                self.verdicts = [each for each in self.verdicts if each.id != verdict_id]
            case LayersChanged(layers=layers, bulks=bulks):
                self.layers, self.bulks = layers, bulks
            case CheckRecorded(check=check):
                self.changes = {path: replace(change, check=check) for path, change in self.changes.items()}
            case _:
                self._annotate(event)

    def _annotate(self, event: AnyEvent) -> None:
        match event:
            case HunkCommented(comment=comment):
                self.comments.pop((comment.path, comment.hunk), None)
                if comment.text:
                    self.comments[comment.path, comment.hunk] = comment
            case CommentsSent():
                self.comments = {}
            case _:
                pass
