"""Queries about what is pending, and about the checkpoints to which it can be taken back."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from core.ids import Id, OptionalId
from core.protocol.messages import Usage
from core.protocol.queries.base import Answer, Query
from core.protocol.review import ChangeDiff, Check, ConflictSides, GitPreview


class DiffQuery(Query, frozen=True, kw_only=True, tag="diff"):
    """A pending change with its lines. `context` = unchanged lines around hunks; -1 = the whole file. `width` = the
    characters of a line that are wanted; 0 = all of them."""

    path: str
    context: int = 3
    width: int = 2_000


class HunkQuery(Query, frozen=True, kw_only=True, tag="hunk"):
    """The whole new side of a hunk, for editing."""

    path: str
    hunk: str


class ConflictQuery(Query, frozen=True, kw_only=True, tag="conflict"):
    """The three sides of a change in conflict."""

    path: str


class GitPreviewQuery(Query, frozen=True, kw_only=True, tag="git.preview"):
    """Preview of accepting a state of git; `root` names its bulk."""

    root: str


class CheckpointsQuery(Query, frozen=True, kw_only=True, tag="checkpoints"):
    """The session's checkpoints."""


class CheckpointPreviewQuery(Query, frozen=True, kw_only=True, tag="checkpoint.preview"):
    """Preview of restoring the files of a checkpoint."""

    id: Id


class PictureQuery(Query, frozen=True, kw_only=True, tag="picture"):
    """A preview of the attachment `digest` of a session, for a client without a decoder, in at most so many cells."""

    digest: Id
    columns: int = 80
    rows: int = 24


class DiffAnswer(Answer, frozen=True, kw_only=True, tag="diff"):
    """The diff of a pending change; None: nothing is pending for that path."""

    diff: ChangeDiff | None


class HunkAnswer(Answer, frozen=True, kw_only=True, tag="hunk"):
    """`text` has "\\n" line endings, `start` is its line (1-indexed) in the pending file."""

    path: str
    hunk: str
    text: str
    start: int
    language: str = ""


class ConflictAnswer(Answer, frozen=True, kw_only=True, tag="conflict"):
    """The sides of a conflict; None: the change is not in conflict."""

    sides: ConflictSides | None


class GitPreviewAnswer(Answer, frozen=True, kw_only=True, tag="git.preview"):
    preview: GitPreview


class CheckpointInfo(Struct, frozen=True, kw_only=True):
    """`at` in ms. `files`: how many paths are pending or written otherwise by now. `before`: it was made before that
    checkpoint was restored. `left`: the conversation went back behind it. `problem`: what is gone of it."""

    id: Id
    seq: int
    at: int
    prompt: str = ""
    before: str = ""
    files: int = 0
    generated: bool = False
    left: bool = False
    problem: str = ""


class CheckpointsAnswer(Answer, frozen=True, kw_only=True, tag="checkpoints"):
    """Oldest first."""

    checkpoints: tuple[CheckpointInfo, ...]


DiskEffect = Literal["", "create", "edit", "delete"]
PendingEffect = Literal["", "propose", "revise", "resolve"]


class RestoredPath(Struct, frozen=True, kw_only=True):
    """The effect of a restore on one path: on its pending change ("propose", "revise" or "resolve"), and on the
    file on disk. `reason`: why the path is skipped ("" = it is not)."""

    path: str
    pending: PendingEffect = ""
    disk: DiskEffect = ""
    reason: str = ""


class CheckpointPreviewAnswer(Answer, frozen=True, kw_only=True, tag="checkpoint.preview"):
    """`bulks`: roots of generated files whose state changes. `messages`: how many of the conversation would go."""

    info: CheckpointInfo
    paths: tuple[RestoredPath, ...] = ()
    bulks: tuple[str, ...] = ()
    messages: int = 0


class PictureAnswer(Answer, frozen=True, kw_only=True, tag="picture"):
    """Rows of cells of two pixels each, one above the other: 12 hex digits a cell, the upper pixel's six first."""

    rows: tuple[str, ...]


class VerificationQuery(Query, frozen=True, kw_only=True, tag="verification"):
    """The checks that `changes.verify` would run now, and the changes that it is about."""

    tests_only: bool = False
    deletions: bool = False


class VerificationAnswer(Answer, frozen=True, kw_only=True, tag="verification"):
    """`refused`: why nothing can be verified as things are, as a sentence."""

    commands: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    refused: str = ""


class TriedCandidate(Struct, frozen=True, kw_only=True):
    """A way that a prompt was tried. `state`: "working", "taken" once anything of it was merged, "gone" when what it
    changed is no longer known. `changes`: against what was pending when it began; `message`: why it did not end well,
    `said`: its last words."""

    id: Id
    title: str
    model: str
    state: Literal["working", "ended", "taken", "gone"]
    message: str = ""
    said: str = ""
    usage: Usage = Usage()
    duration_ms: int = 0
    check: Check | None = None
    changes: tuple[ChangeDiff, ...] = ()


class CandidatesQuery(Query, frozen=True, kw_only=True, tag="candidates"):
    """The candidates of the turn `turn`, "" = of the latest that had any."""

    turn: OptionalId = ""


class CandidatesAnswer(Answer, frozen=True, kw_only=True, tag="candidates"):
    prompt: str = ""
    candidates: tuple[TriedCandidate, ...] = ()
