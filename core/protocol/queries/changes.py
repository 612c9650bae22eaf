"""Queries about changes: pending ones, their conflicts and checkpoints, and accepted ones that no commit has yet."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from core.ids import Id, OptionalId
from core.protocol.base import Answer, Query
from core.protocol.messages import Usage
from core.protocol.review import ChangeDiff, Check, CommitTopic, ConflictSides, GitPreview

CommitSplit = Literal["none", "todo", "prompt", "topic"]


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


class CommitQuery(Query, frozen=True, kw_only=True, tag="commit"):
    """Preview the next commit of accepted hunks. `split`: one commit for all, or one for each todo, prompt or topic;
    `topics`: as in `commit.sorted`; edits that they do not name are one more. `paths`: of these files and what lies
    below these directories alone, () = of all."""

    split: CommitSplit = "none"
    topics: tuple[CommitTopic, ...] = ()
    paths: tuple[str, ...] = ()


class CommitFile(Struct, frozen=True, kw_only=True):
    """A path that a commit changes. `added`, `removed`: lines; `problem`: why it has to stay out ("" = it goes in)."""

    path: str
    operation: Literal["create", "edit", "delete"]
    added: int = 0
    removed: int = 0
    problem: str = ""


class CommitGroup(Struct, frozen=True, kw_only=True):
    """One proposed commit. `edits`: the accepted edits by id (see `PlannedCommit`); `files` as they are with the groups
    before it committed; `prompts` and `todos`: their texts; `checks`: commands that passed over its hunks before they
    were accepted, with the tests that they counted; `message`: made of all that without a model."""

    title: str
    edits: tuple[str, ...]
    files: tuple[CommitFile, ...]
    message: str
    prompts: tuple[str, ...] = ()
    todos: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()


class CommitAnswer(Answer, frozen=True, kw_only=True, tag="commit"):
    """`head`: the last commit ("" = none yet) on `branch` ("" = detached). `refused`: why nothing can be committed.
    `hooks`: those of the repository that a commit runs, by name. `staged`: paths that the user has staged, which stay
    so. `left_out`: accepted, and why they can't be committed."""

    branch: str = ""
    head: str = ""
    refused: str = ""
    hint: str = ""
    groups: tuple[CommitGroup, ...] = ()
    left_out: tuple[CommitFile, ...] = ()
    hooks: tuple[str, ...] = ()
    staged: int = 0


class PullRequestQuery(Query, frozen=True, kw_only=True, tag="pull_request"):
    """Preview a pull request of the current branch."""


class PullRequestAnswer(Answer, frozen=True, kw_only=True, tag="pull_request"):
    """`branch` is pushed to the `remote` at `url` and is to go into `base`; where HEAD is on the base itself, it is a
    proposed name. `commits`: subjects of those that `base` does not have, oldest first. `program`: gh or glab, "" =
    neither is installed, so that it ends with the push. `title`, `body`: made without a model. `refused`: why there
    can't be one."""

    branch: str = ""
    base: str = ""
    remote: str = ""
    url: str = ""
    program: str = ""
    commits: tuple[str, ...] = ()
    title: str = ""
    body: str = ""
    refused: str = ""
    hint: str = ""


class PatchQuery(Query, frozen=True, kw_only=True, tag="patch"):
    """Changes as a patch for `git apply`: those that are `pending`, or `accepted` and in no commit yet. `paths`: files
    and directories that it is limited to; () = all. `hunks`: of pending files only these, by id; () = all."""

    which: Literal["pending", "accepted"] = "pending"
    paths: tuple[str, ...] = ()
    hunks: tuple[str, ...] = ()


class PatchAnswer(Answer, frozen=True, kw_only=True, tag="patch"):
    """`patch`: its bytes (base64 in JSON), none for no change. `left_out`: paths of which it has nothing, and why."""

    patch: bytes
    paths: tuple[str, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
