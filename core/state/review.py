"""The review state: the fold of its events into pending changes and standing verdicts."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from core.protocol.events import (
    AnyEvent,
    ChangeConflicted,
    ChangeProposed,
    ChangeResolved,
    ChangeRevised,
    CheckpointCreated,
    CheckRecorded,
    CommentsSent,
    FileWritten,
    HunkCommented,
    LayersChanged,
    PlanCommented,
    VerdictGiven,
    VerdictUndone,
)
from core.protocol.review import Bulk, Change, Comment, VerdictRecord


class ReviewCheckpoint(Struct, frozen=True, kw_only=True):
    """The review at a checkpoint; `written`: how many writes to the workspace came before it."""

    changes: Mapping[str, Change]
    verdicts: tuple[VerdictRecord, ...]
    bulks: tuple[Bulk, ...]
    generated: bool
    written: int


class ReviewState:
    """The state of one session's review. Only `apply` changes it; `version` grows with every event.

    `changes` by path; `verdicts` in the order given, without those that were undone; `layers` that commands left
    behind, lowest first, and the `bulks` in them; `comments` by path and hunk that the model has not been sent;
    `writes` to the workspace; `checkpoints` by name.
    """

    def __init__(self) -> None:
        self.version = 0
        self.changes: dict[str, Change] = {}
        self.verdicts: list[VerdictRecord] = []
        self.layers: tuple[str, ...] = ()
        self.bulks: tuple[Bulk, ...] = ()
        self.comments: dict[tuple[str, str], Comment] = {}
        self.writes: list[FileWritten] = []
        self.checkpoints: dict[str, ReviewCheckpoint] = {}

    def apply(self, event: AnyEvent) -> None:
        """Apply one event; those that are not about the review change nothing but `version`."""
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
                self.changes = {
                    path: replace(each, check=check) if check.covers(path) else each
                    for path, each in self.changes.items()
                }
            case _:
                self._apply_note(event)

    def _apply_note(self, event: AnyEvent) -> None:
        match event:
            case HunkCommented(comment=comment) | PlanCommented(comment=comment):
                self.comments.pop((comment.path, comment.hunk), None)
                if comment.text:
                    self.comments[comment.path, comment.hunk] = comment
            case CommentsSent():
                self.comments = {}
            case FileWritten() if event.before is not None:
                self.writes.append(event)
            case CheckpointCreated(id=name):
                self.checkpoints[name] = self._take_checkpoint(generated=event.generated)
            case _:
                pass

    def _take_checkpoint(self, *, generated: bool) -> ReviewCheckpoint:
        return ReviewCheckpoint(
            changes=dict(self.changes),
            verdicts=tuple(self.verdicts),
            bulks=self.bulks,
            generated=generated,
            written=len(self.writes),
        )
