"""Events of the pending review and of the files of the workspace."""

from __future__ import annotations

from core.protocol.events.base import Event
from core.protocol.review import Change, FileState, VerdictRecord


class ChangeProposed(Event, frozen=True, kw_only=True, tag="change.proposed"):
    change: Change


class ChangeRevised(Event, frozen=True, kw_only=True, tag="change.revised"):
    """The same path as an earlier change: it replaces what was known of it."""

    change: Change


class ChangeResolved(Event, frozen=True, kw_only=True, tag="change.resolved"):
    """Nothing of this path is pending any more."""

    path: str


class ChangeConflicted(Event, frozen=True, kw_only=True, tag="change.conflicted"):
    path: str
    reason: str


class VerdictGiven(Event, frozen=True, kw_only=True, tag="verdict.given"):
    verdict: VerdictRecord


class VerdictUndone(Event, frozen=True, kw_only=True, tag="verdict.undone"):
    id: str
    path: str


class VerdictsReported(Event, frozen=True, kw_only=True, tag="verdicts.reported"):
    """The model has been told of these verdicts (ids)."""

    ids: tuple[str, ...]


class FileWritten(Event, frozen=True, kw_only=True, tag="file.written"):
    """A path of the workspace now holds `state` (kind absent: it was removed)."""

    path: str
    state: FileState


class FilesChanged(Event, frozen=True, kw_only=True, tag="files.changed"):
    """Lossy: paths of the workspace that changed on disk, by whomever; empty = too many to name, look again."""

    paths: tuple[str, ...] = ()
