"""Queries (clients -> core): questions without an effect, and their answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Union

from msgspec import Struct, field

from core.protocol.debug import ComparedLocation, ProbeRecord
from core.protocol.models import ModelChoice, ProviderStatus, RouteRow
from core.protocol.review import ChangeDiff, ConflictSides, GitPreview


class Query(Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of all queries. `session` may be "" where the answer does not depend on one."""

    session: str = ""


class Answer(Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of all answers."""


class TreeQuery(Query, frozen=True, kw_only=True, tag="tree"):
    """The entries of one directory ("" = the workspace), shadow over workspace."""

    path: str = ""


class FileQuery(Query, frozen=True, kw_only=True, tag="file"):
    """The text of a file for preview, in the pending or the workspace's version; at most `max_bytes`."""

    path: str
    side: Literal["pending", "workspace"] = "pending"
    max_bytes: int = 2_000_000


class FindQuery(Query, frozen=True, kw_only=True, tag="find"):
    """Files (and `directories`) whose paths match `pattern` best, fuzzily."""

    pattern: str
    limit: int = 20
    directories: bool = False


class DiffQuery(Query, frozen=True, kw_only=True, tag="diff"):
    """A pending change with its lines. `context` = unchanged lines around hunks; -1 = the whole file."""

    path: str
    context: int = 3


class HunkQuery(Query, frozen=True, kw_only=True, tag="hunk"):
    """The whole new side of a hunk, for editing."""

    path: str
    hunk: str


class ConflictQuery(Query, frozen=True, kw_only=True, tag="conflict"):
    """The three sides of a change in conflict."""

    path: str


class IdleQuery(Query, frozen=True, kw_only=True, tag="idle"):
    """Answered when every command that was accepted before has had its effect; a turn may still run."""


class GitPreviewQuery(Query, frozen=True, kw_only=True, tag="git.preview"):
    """Preview of accepting a state of git; `root` names its bulk."""

    root: str


class SessionsQuery(Query, frozen=True, kw_only=True, tag="sessions"):
    limit: int = 50


class ModelsQuery(Query, frozen=True, kw_only=True, tag="models"):
    """Models that can be chosen: of the providers with a key, and of the local servers that answer."""

    discover: bool = True


class RoutesQuery(Query, frozen=True, kw_only=True, tag="routes"):
    """The model of each job, and its usage in the session."""


class PromptHistoryQuery(Query, frozen=True, kw_only=True, tag="prompts"):
    """The user's prompts in this workspace, oldest first."""

    limit: int = 200


class ContextQuery(Query, frozen=True, kw_only=True, tag="context"):
    """Size of each part of the next request, for `/context`."""


class SettingsQuery(Query, frozen=True, kw_only=True, tag="settings"):
    """The screen's part of the configuration."""


class PermissionsQuery(Query, frozen=True, kw_only=True, tag="permissions"):
    """The permissions of the workspace."""


class PatternQuery(Query, frozen=True, kw_only=True, tag="pattern"):
    """Commands that a pattern would match, beside the `command` that it is typed for."""

    pattern: str
    command: str
    choice: Literal["allow", "deny"] = "allow"


class CheckpointsQuery(Query, frozen=True, kw_only=True, tag="checkpoints"):
    """The session's checkpoints."""


class CheckpointPreviewQuery(Query, frozen=True, kw_only=True, tag="checkpoint.preview"):
    """Preview of restoring the files of a checkpoint."""

    id: str


class ProbeLogQuery(Query, frozen=True, kw_only=True, tag="probe.log"):
    """The log of a run, and its differences from another, filtered by `hypothesis` and all of `words` if given."""

    run: str
    compare_with: str = ""
    hypothesis: str = ""
    words: str = ""


class PictureQuery(Query, frozen=True, kw_only=True, tag="picture"):
    """A preview of the attachment `digest` of a session, for a client without a decoder, in at most so many cells."""

    digest: str
    columns: int = 80
    rows: int = 24


if TYPE_CHECKING:
    AnyQuery = Query
else:  # what can be decoded: every query
    AnyQuery = Union[(*Query.__subclasses__(),)]


class TreeEntry(Struct, frozen=True, kw_only=True, array_like=True):
    """One entry. `mark`: the pending operation (create, edit, delete), "" = none; "edit" = something is below."""

    name: str
    kind: Literal["directory", "file", "symlink", "other"]
    ignored: bool = False
    mark: str = ""


class TreeAnswer(Answer, frozen=True, kw_only=True, tag="tree"):
    """Directories first, then files, each by name; `truncated`: number of entries left out."""

    path: str
    entries: tuple[TreeEntry, ...]
    truncated: int = 0


class FileAnswer(Answer, frozen=True, kw_only=True, tag="file"):
    """`problem` says why there is no text (binary, too large, missing, not a regular file)."""

    path: str
    text: str
    language: str = ""
    size: int = 0
    problem: str = ""


class FindAnswer(Answer, frozen=True, kw_only=True, tag="found"):
    paths: tuple[str, ...]


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


class IdleAnswer(Answer, frozen=True, kw_only=True, tag="idle"):
    """`seq` of the last event then."""

    seq: int


class GitPreviewAnswer(Answer, frozen=True, kw_only=True, tag="git.preview"):
    preview: GitPreview


class SessionInfo(Struct, frozen=True, kw_only=True):
    """Times in ms since the epoch; `pending` counts what waits for a verdict, `kept` the bulks of what git ignores."""

    id: str
    title: str
    started: int
    updated: int
    model: str
    mode: str
    turns: int = 0
    pending: int = 0
    kept: int = 0
    locked: bool = False
    problem: str = ""


class SessionsAnswer(Answer, frozen=True, kw_only=True, tag="sessions"):
    sessions: tuple[SessionInfo, ...]


class ModelsAnswer(Answer, frozen=True, kw_only=True, tag="models"):
    """`default` "" = nothing is configured: the welcome screen's case; `reason`: what made it that one, or why not."""

    models: tuple[ModelChoice, ...]
    providers: tuple[ProviderStatus, ...]
    default: str = ""
    reason: str = ""


class RoutesAnswer(Answer, frozen=True, kw_only=True, tag="routes"):
    """The route of each job. `answering`: the conversation's model now, when it is not the first of its route."""

    rows: tuple[RouteRow, ...]
    answering: str = ""


class PromptHistoryAnswer(Answer, frozen=True, kw_only=True, tag="prompts"):
    prompts: tuple[str, ...]


class ContextPart(Struct, frozen=True, kw_only=True):
    name: str
    tokens: int
    detail: str = ""


class ContextAnswer(Answer, frozen=True, kw_only=True, tag="context"):
    """Tokens by part. `notes`: sentences about the last request."""

    parts: tuple[ContextPart, ...]
    used: int
    window: int
    notes: tuple[str, ...] = ()


class SettingsAnswer(Answer, frozen=True, kw_only=True, tag="settings"):
    """`theme` "" = the default; `keymap`: keys by the id of a binding."""

    theme: str = ""
    keymap: dict[str, str] = field(default_factory=dict)


class SavedPermission(Struct, frozen=True, kw_only=True):
    """`id` "" = it stands in the configuration file `source`. `rule` is a rule or, with `exactly`, a command."""

    choice: str
    rule: str
    id: str = ""
    source: str = ""
    exactly: bool = False
    directory: str = "."


class PermissionsAnswer(Answer, frozen=True, kw_only=True, tag="permissions"):
    """`hosts`: patterns of hosts that commands of the session can reach now."""

    trusted: bool
    kept: tuple[SavedPermission, ...]
    hosts: tuple[str, ...] = ()


class PatternAnswer(Answer, frozen=True, kw_only=True, tag="pattern"):
    """`problem` "" = it can be saved. `also`: commands of the session that it matches; `example`: one never run."""

    problem: str = ""
    also: tuple[str, ...] = ()
    example: str = ""


class CheckpointInfo(Struct, frozen=True, kw_only=True):
    """`at` in ms. `files`: how many paths are pending or written otherwise by now. `before`: it was made before that
    checkpoint was restored. `left`: the conversation went back behind it. `problem`: what is gone of it."""

    id: str
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


class ProbeLogAnswer(Answer, frozen=True, kw_only=True, tag="probe.log"):
    """The first records of `total`; with `compare_with`, the `places` where either run logged, that run's first."""

    run: str
    total: int = 0
    records: tuple[ProbeRecord, ...] = ()
    compare_with: str = ""
    places: tuple[ComparedLocation, ...] = ()

    @property
    def is_truncated(self) -> bool:
        """True if there are more records than these."""
        return self.total > len(self.records)


class PictureAnswer(Answer, frozen=True, kw_only=True, tag="picture"):
    """Rows of cells of two pixels each, one above the other: 12 hex digits a cell, the upper pixel's six first."""

    rows: tuple[str, ...]


class RefusedAnswer(Answer, frozen=True, kw_only=True, tag="refused"):
    """The query can't be answered."""

    code: str
    message: str
    hint: str = ""


if TYPE_CHECKING:
    AnyAnswer = Answer
else:  # what can be decoded: every answer
    AnyAnswer = Union[(*Answer.__subclasses__(),)]
