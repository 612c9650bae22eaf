"""Queries (clients -> core): questions without an effect, and their answers."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from core.protocol.asked import Answer, Query
from core.protocol.debug import ComparedPlace, ProbeRecord
from core.protocol.models import ModelChoice, ProviderStatus, RouteRow
from core.protocol.pictures import Picture, PictureQuery
from core.protocol.review import ChangeDiff, GitPreview, ThreeSides


class TreeQuery(Query, frozen=True, kw_only=True, tag="tree"):
    """The entries of one directory ("" = the workspace), shadow over workspace."""

    path: str = ""


class FileQuery(Query, frozen=True, kw_only=True, tag="file"):
    """A file's text for preview; `side` says whose view."""

    path: str
    side: Literal["pending", "workspace"] = "pending"
    max_bytes: int = 2_000_000


class FindQuery(Query, frozen=True, kw_only=True, tag="find"):
    """Files (and directories, if asked for) whose path matches `pattern` best, fuzzily."""

    pattern: str
    limit: int = 20
    directories: bool = False


class DiffQuery(Query, frozen=True, kw_only=True, tag="diff"):
    """A pending change with its lines. `context` = unchanged lines around hunks; -1 = the whole file."""

    path: str
    context: int = 3


class HunkQuery(Query, frozen=True, kw_only=True, tag="hunk"):
    """The new side of a hunk, whole, to be edited."""

    path: str
    hunk: str


class ConflictQuery(Query, frozen=True, kw_only=True, tag="conflict"):
    """The three sides of a change in conflict."""

    path: str


class GitPreviewQuery(Query, frozen=True, kw_only=True, tag="git.preview"):
    """What accepting a state of git would do. `root` names its bulk."""

    root: str


class SessionsQuery(Query, frozen=True, kw_only=True, tag="sessions"):
    limit: int = 50


class ModelsQuery(Query, frozen=True, kw_only=True, tag="models"):
    """Models that can be chosen: of the providers with a key, and of the local servers that answer."""

    discover: bool = True


class RoutesQuery(Query, frozen=True, kw_only=True, tag="routes"):
    """Who does what: the model of each job, and what it has taken in the session."""


class PromptHistoryQuery(Query, frozen=True, kw_only=True, tag="prompts"):
    """What the user typed in this workspace, oldest first."""

    limit: int = 200


class ContextQuery(Query, frozen=True, kw_only=True, tag="context"):
    """What the model is sent, by part, for `/context`."""


class SettingsQuery(Query, frozen=True, kw_only=True, tag="settings"):
    """What is configured for a screen."""


class PermissionsQuery(Query, frozen=True, kw_only=True, tag="permissions"):
    """What is allowed and refused in the workspace."""


class PatternQuery(Query, frozen=True, kw_only=True, tag="pattern"):
    """What a pattern would speak of, beside the `command` that it is typed for."""

    pattern: str
    command: str
    choice: Literal["allow", "deny"] = "allow"


class CheckpointsQuery(Query, frozen=True, kw_only=True, tag="checkpoints"):
    """Where the session can go back to."""


class CheckpointPreviewQuery(Query, frozen=True, kw_only=True, tag="checkpoint.preview"):
    """What restoring the files of a checkpoint would change."""

    id: str


class ProbeLogQuery(Query, frozen=True, kw_only=True, tag="probe.log"):
    """What a run logged, and how it differs from another one; of both only what is of a hypothesis and has every word
    in it, if they are given."""

    run: str
    compare_with: str = ""
    hypothesis: str = ""
    words: str = ""


AnyQuery = (
    TreeQuery
    | FileQuery
    | FindQuery
    | DiffQuery
    | HunkQuery
    | ConflictQuery
    | GitPreviewQuery
    | SessionsQuery
    | ModelsQuery
    | RoutesQuery
    | PromptHistoryQuery
    | ContextQuery
    | SettingsQuery
    | PermissionsQuery
    | PatternQuery
    | CheckpointsQuery
    | CheckpointPreviewQuery
    | ProbeLogQuery
    | PictureQuery
)


class TreeEntry(Struct, frozen=True, kw_only=True, array_like=True):
    """`mark`: "" or the pending operation (create, edit, delete); a directory has "edit" if anything below is."""

    name: str
    kind: Literal["directory", "file", "symlink", "other"]
    ignored: bool = False
    mark: str = ""


class Tree(Answer, frozen=True, kw_only=True, tag="tree"):
    """Directories first, then files, each by name; `truncated`: how many more there are."""

    path: str
    entries: tuple[TreeEntry, ...]
    truncated: int = 0


class FileText(Answer, frozen=True, kw_only=True, tag="file"):
    """`problem` says why there is no text (binary, too large, missing, not a regular file)."""

    path: str
    text: str
    language: str = ""
    size: int = 0
    problem: str = ""


class Found(Answer, frozen=True, kw_only=True, tag="found"):
    paths: tuple[str, ...]


class Diff(Answer, frozen=True, kw_only=True, tag="diff"):
    """None: nothing is pending for that path."""

    diff: ChangeDiff | None


class HunkText(Answer, frozen=True, kw_only=True, tag="hunk"):
    """`text` has "\\n" line endings, `start` is its line (1-indexed) in the pending file."""

    path: str
    hunk: str
    text: str
    start: int
    language: str = ""


class Conflict(Answer, frozen=True, kw_only=True, tag="conflict"):
    """None: the change is in no conflict any more."""

    sides: ThreeSides | None


class GitPreviewed(Answer, frozen=True, kw_only=True, tag="git.preview"):
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


class Sessions(Answer, frozen=True, kw_only=True, tag="sessions"):
    sessions: tuple[SessionInfo, ...]


class Models(Answer, frozen=True, kw_only=True, tag="models"):
    """`default` "" = nothing is configured: the welcome screen's case; `reason`: what made it that one, or why not."""

    models: tuple[ModelChoice, ...]
    providers: tuple[ProviderStatus, ...]
    default: str = ""
    reason: str = ""


class RoutesTable(Answer, frozen=True, kw_only=True, tag="routes"):
    """`answering`: the model that the conversation has now, when it is not the first of its route."""

    rows: tuple[RouteRow, ...]
    answering: str = ""


class PromptHistory(Answer, frozen=True, kw_only=True, tag="prompts"):
    prompts: tuple[str, ...]


class ContextPart(Struct, frozen=True, kw_only=True):
    name: str
    tokens: int
    detail: str = ""


class ContextReport(Answer, frozen=True, kw_only=True, tag="context"):
    """`notes`: what else is to be known of the last request, a sentence each."""

    parts: tuple[ContextPart, ...]
    used: int
    window: int
    notes: tuple[str, ...] = ()


class ScreenSettings(Answer, frozen=True, kw_only=True, tag="settings"):
    """`theme` "" = the default; `keymap`: keys by the id of a binding."""

    theme: str = ""
    keymap: dict[str, str] = field(default_factory=dict)


class KeptPermission(Struct, frozen=True, kw_only=True):
    """What was allowed or refused for good. `id` "" = it stands in a configuration file, `source`. `rule` or, with
    `exactly`, a command."""

    choice: str
    rule: str
    id: str = ""
    source: str = ""
    exactly: bool = False
    directory: str = "."


class Permissions(Answer, frozen=True, kw_only=True, tag="permissions"):
    """`hosts`: patterns of hosts that commands of the session can reach now."""

    trusted: bool
    kept: tuple[KeptPermission, ...]
    hosts: tuple[str, ...] = ()


class PatternPreview(Answer, frozen=True, kw_only=True, tag="pattern"):
    """`problem` "" = it can be kept. `also`: commands of this session that it speaks of, too;
    `example`: one that nobody has run."""

    problem: str = ""
    also: tuple[str, ...] = ()
    example: str = ""


class CheckpointInfo(Struct, frozen=True, kw_only=True):
    """`at` in ms. `files`: how many paths are pending or written otherwise by now. `before`: it was made before that
    checkpoint was restored. `left`: the conversation has been taken back behind it. `problem`: what of it is not there
    any more ("" = nothing)."""

    id: str
    seq: int
    at: int
    prompt: str = ""
    before: str = ""
    files: int = 0
    generated: bool = False
    left: bool = False
    problem: str = ""


class Checkpoints(Answer, frozen=True, kw_only=True, tag="checkpoints"):
    """Oldest first."""

    checkpoints: tuple[CheckpointInfo, ...]


Effect = Literal["", "create", "edit", "delete"]
PendingEffect = Literal["", "propose", "revise", "resolve"]


class RestoredPath(Struct, frozen=True, kw_only=True):
    """What a restore would do to a path: to what waits for a verdict there ("propose", "revise" or "resolve"), and to
    the file on disk. `reason`: why it is left alone ("" = it is not)."""

    path: str
    pending: PendingEffect = ""
    disk: Effect = ""
    reason: str = ""


class CheckpointPreview(Answer, frozen=True, kw_only=True, tag="checkpoint.preview"):
    """`bulks`: roots of generated files whose state changes. `messages`: how many of the conversation would go."""

    info: CheckpointInfo
    paths: tuple[RestoredPath, ...] = ()
    bulks: tuple[str, ...] = ()
    messages: int = 0


class ProbeLog(Answer, frozen=True, kw_only=True, tag="probe.log"):
    """At most so many records as a screen can use, of `total`. With `compare_with`, `places` are those that either
    logged at, that run's records first."""

    run: str
    total: int = 0
    records: tuple[ProbeRecord, ...] = ()
    compare_with: str = ""
    places: tuple[ComparedPlace, ...] = ()

    @property
    def is_cut(self) -> bool:
        """Whether there are more records than these."""
        return self.total > len(self.records)


class Refused(Answer, frozen=True, kw_only=True, tag="refused"):
    """The query can't be answered."""

    code: str
    message: str
    hint: str = ""


AnyAnswer = (
    Tree
    | FileText
    | Found
    | Diff
    | HunkText
    | Conflict
    | GitPreviewed
    | Sessions
    | Models
    | RoutesTable
    | PromptHistory
    | ContextReport
    | ScreenSettings
    | Permissions
    | PatternPreview
    | Checkpoints
    | CheckpointPreview
    | ProbeLog
    | Picture
    | Refused
)
