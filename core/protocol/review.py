"""The pending review on the wire: changes and hunks by position and identity. A query returns their lines."""

from __future__ import annotations

import shlex
from typing import Final, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from core.ids import Id, OptionalId
from core.protocol.paths import is_named_by

Verdict = Literal["accept", "reject"]
ReviewPolicy = Literal["end", "each", "later", "auto-accept"]
COMMENTS_TITLE = "My comments on"  # The beginning of a prompt made of comments, after a note of the user.
Operation = Literal["create", "edit", "delete", "rename", "mode"]


class FileState(Struct, frozen=True, kw_only=True):
    """The content of a path. `blob` names the stored bytes (sha256); with `kind` absent the rest is empty."""

    kind: Literal["absent", "file", "symlink"] = "file"
    blob: OptionalId = ""
    mode: int = 0o644
    size: int = 0


class Hunk(Struct, frozen=True, kw_only=True):
    """One contiguous difference. Lines are 1-indexed; a count of 0 means the position before `start`.

    `id` depends on content only, so it stays the same while other hunks come and go. `todo`: what it was made for.
    `yours`: the user edited it in the review. `clashes`: of a change in conflict, it is this hunk that can't be taken.
    `moves`: it is the rename of the file, first and without lines; it is accepted with any other, rejected with all.
    """

    id: Id
    old_start: int
    old_lines: int
    new_start: int
    new_lines: int
    todo: str = ""
    yours: bool = False
    clashes: bool = False
    moves: bool = False

    @property
    def kind(self) -> str:
        """`rename` or `hunk`."""
        return "rename" if self.moves else "hunk"


class CompetingVersion(Struct, frozen=True, kw_only=True):
    """Another agent's version of a path that conflicts with what is pending: `base` is what it began with,
    `theirs` what it left. `by` is the id of the subagent, `todo` what it worked at, `title` its task where that was
    no todo."""

    base: FileState
    theirs: FileState
    by: str = ""
    todo: str = ""
    title: str = ""

    @property
    def name(self) -> str:
        """The name of the author, for the user."""
        return self.todo or (f"“{self.title}”" if self.title else self.by)


# The beginning of the risk of a change that a rule denies.
WRITE_DENIED = "may not be written"


class Change(Struct, frozen=True, kw_only=True):
    """One path whose pending state differs from the base that it was made from.

    `binary`, mode-only changes, symlinks, creations of empty files and deletions of them have exactly one hunk that
    stands for the whole file. `conflict` says why the change can't be promoted as it stands ("" = it can): of its
    hunks only those that clash can't, all of them if none is marked. A `check` holds for this pending state only.
    `risk`: the effect that the file has by itself ("" = nothing known); with `protected` it is accepted only when that
    was confirmed, and never together with others. `broken`: the first place that does not parse in a file whose base
    does or is not there ("" = nothing known); found a moment after the change.
    While there are `competing_versions`, it is in conflict with them; parts of theirs that fit are `pending` already.
    Of a rename (`find_renames`), `source` is what the project has by its old name, and the hunks are counted in that.
    `apart`: the user wants the new file judged by itself, whatever it is like.
    """

    path: str
    operation: Operation
    base: FileState
    pending: FileState
    hunks: tuple[Hunk, ...] = ()
    added: int = 0
    removed: int = 0
    binary: bool = False
    language: str = ""
    protected: bool = False
    conflict: str = ""
    origin: Origin | None = None
    renamed_from: str = ""
    check: Check | None = None
    risk: str = ""
    broken: str = ""
    competing_versions: tuple[CompetingVersion, ...] = field(default=(), name="rivals")
    source: FileState | None = None
    apart: bool = False

    @property
    def is_denied(self) -> bool:
        """True if a rule of the user denies writing it, so that no confirmation helps."""
        return self.protected and self.risk.startswith(WRITE_DENIED)

    @property
    def obstacle(self) -> str:
        """Return why a verdict on everything skips the change; "" = it does not."""
        return self.conflict.rstrip(".") or (self.risk if self.is_denied else "protected" if self.protected else "")

    @property
    def counted_state(self) -> FileState:
        """The state whose lines the hunks are counted in."""
        return self.source or self.base

    @property
    def rename_source(self) -> tuple[str, FileState] | None:
        """The old path of a rename, and the project's state there."""
        return (self.renamed_from, self.source) if self.source is not None else None

    @property
    def clean_hunks(self) -> tuple[Hunk, ...]:
        """The hunks that can be accepted now."""
        if not self.conflict:
            return self.hunks
        return (
            tuple(hunk for hunk in self.hunks if not hunk.clashes) if any(hunk.clashes for hunk in self.hunks) else ()
        )

    def is_hunk_clean(self, hunk: str) -> bool:
        """Return True if the hunk of this id can be accepted now."""
        return not self.conflict or any(clean_hunk.id == hunk for clean_hunk in self.clean_hunks)

    def is_conflicted_at(self, index: int) -> bool:
        """Return True if the hunk with this index can't be accepted; with an index out of range, if no hunk can."""
        if 0 <= index < len(self.hunks):
            return not self.is_hunk_clean(self.hunks[index].id)
        return bool(self.conflict) and not self.clean_hunks


class Origin(Struct, frozen=True, kw_only=True):
    """The source of the latest edit of a change. `command`: the text of the command whose side effect it is. `tool`
    "you": the user edited in the review what the tool `over` made; all else is as it was before. `subagent`: the title
    of the subagent whose work was merged, "" = none's, or a todo's."""

    turn: OptionalId = ""
    call: str = ""
    tool: str = ""
    todo: str = ""
    command: str = ""
    over: str = ""
    subagent: str = ""

    def strip_user_edit(self) -> Origin:
        """Return the origin as it was before the user edited the change."""
        return replace(self, tool=self.over, over="") if self.tool == "you" and self.over else self

    def covers(self, other: Origin | None) -> bool:
        """True if `other` agrees in every field that is not "" here."""
        return other is not None and all(
            not value or value == getattr(other, name)
            for name, value in ((field_name, getattr(self, field_name)) for field_name in self.__struct_fields__)
        )


CheckKind = Literal["tests", "types", "build", "lint", "syntax", "check"]
_PROSE_ENDINGS: Final = (".md", ".markdown", ".rst", ".adoc", ".asciidoc", ".textile", ".org")
_PROSE_NAMES: Final = frozenset({"license", "licence", "copying", "notice", "authors", "contributors", "changelog"})


def is_prose(path: str) -> bool:
    """Return True for a file of prose, which no check covers, by its name."""
    name = path.rpartition("/")[2].lower()
    return name.endswith(_PROSE_ENDINGS) or name in _PROSE_NAMES


class Check(Struct, frozen=True, kw_only=True):
    """The latest command that ran over a change as it is pending, and its exit code. None: untested. `kind`: the most
    that it can prove; `syntax` only that the text can be parsed, `check` if that is not known. `tests`: what
    tests it counted (`12 passed`), "" = none; `directory`: where it ran. `is_verified`: the program ran it
    again, alone, in a clean layer; `changed_here`: that run was decided by these files of the change."""

    call: str
    command: str
    exit_code: int
    paths: tuple[str, ...] = ()  # The files and directories that it covered; () = the project.
    kind: CheckKind = "check"
    tests: str = ""
    directory: str = "."
    is_verified: bool = False
    changed_here: tuple[str, ...] = ()

    def build_command(self) -> str:
        """Return the command as it is run from the project's root."""
        return self.command if self.directory == "." else f"cd {shlex.quote(self.directory)} && {self.command}"

    @property
    def has_passed(self) -> bool:
        """True if the command's exit code is 0."""
        return self.exit_code == 0

    def covers(self, path: str) -> bool:
        """True if the command may have looked at this file; `paths` may be shell patterns. It says nothing of prose
        that it did not name."""
        if is_prose(path):
            return path in self.paths
        return not self.paths or any(is_named_by(path, pattern) for pattern in self.paths)


# Directories that a test run, a type check or a build fills, and fills again after their deletion.
CACHES: Final = frozenset(
    {
        *("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".ipynb_checkpoints"),
        *(".turbo", ".parcel-cache", ".ccls-cache", ".nyc_output"),
    }
)


class Bulk(Struct, frozen=True, kw_only=True):
    """Paths that are decided as one: everything that git ignores below a root (`generated`), one file that is too large
    for a line diff (`large`), or the state of git itself (`.git`).

    `root` names it. `files` were created or changed in it, `bytes` of content; `deleted` were removed. `risk`: why
    accepting it needs a confirmation; "": it needs none. `stale`: why it may no longer fit the rest of the project; "":
    no reason is known.
    """

    root: str
    kind: Literal["generated", "git", "large"]
    files: int
    bytes: int
    deleted: int = 0
    origin: Origin | None = None
    conflict: str = ""
    risk: str = ""
    stale: str = ""

    @property
    def needs_verdict(self) -> bool:
        """True if it waits for a verdict. Ignored files are only stored outside the project."""
        return self.kind != "generated"

    @property
    def is_cache(self) -> bool:
        """True if tools fill it again by themselves, so that it is not reported."""
        return self.kind == "generated" and self.root.rpartition("/")[2] in CACHES


class GitPreview(Struct, frozen=True, kw_only=True):
    """The effects of accepting a state of git. `moves`: one line for each reference. `text`: the new commits as they
    will be, parents first, each with message and diff; `clipped`: there is more. `refused`: why it can't be accepted as
    things are; "": it can. `notes`: what would not be as commands left it, rewritten commits above all."""

    root: str
    moves: tuple[str, ...] = ()
    commits: int = 0
    text: str = ""
    clipped: bool = False
    refused: str = ""
    notes: tuple[str, ...] = ()


class VerdictRecord(Struct, frozen=True, kw_only=True):
    """One verdict on hunks of one file, with the states before and after it, so that it can be undone.

    Accepting moves the base (and the file on disk) from `base_before` to `base_after`; rejecting moves the pending
    state from `pending_before` to `pending_after`. `excerpt` identifies the lines for the model. `directories` were
    created for the file when it was accepted, outermost first, and are removed when that is undone. With a `bulk`, the
    verdict is on that, `path` is its root, and it has no hunks and no states. `competing_versions` were rejected with
    the change, which came from `origin`. `beside`: the change stayed in conflict, so that the states on disk are not
    those in which the hunks are counted. `settled`: not a verdict but the resolution of a conflict; the change before
    it. For a rename, `moved_with` is the verdict on the other path, which is given and undone with this one;
    `renamed_from`, `source` and `check` as in `Change`. `superseded`: the bulk was set aside without a verdict, because
    the user's own state of it is newer.
    """

    id: Id
    path: str
    verdict: Verdict
    hunks: tuple[Hunk, ...]
    base_before: FileState
    base_after: FileState
    pending_before: FileState
    pending_after: FileState
    reason: str = ""
    excerpt: str = ""
    directories: tuple[str, ...] = ()
    bulk: Bulk | None = None
    competing_versions: tuple[CompetingVersion, ...] = field(default=(), name="rivals")
    origin: Origin | None = None
    beside: bool = False
    settled: Change | None = None
    moved_with: str = ""
    renamed_from: str = ""
    source: FileState | None = None
    check: Check | None = None
    superseded: bool = False


class DiffLine(Struct, frozen=True, kw_only=True, array_like=True):
    """One row of a diff. `old`/`new` are 1-indexed line numbers, 0 = not on that side. `hunk` is an index into
    `ChangeDiff.hunks`, -1 for context. `text` has no line ending; `eol` is set when the ending itself matters:
    "" same as the rest, "crlf"/"lf"/"none" (no final newline)."""

    kind: Literal["context", "removed", "added", "gap"]
    old: int
    new: int
    text: str
    hunk: int = -1
    eol: str = ""
    marks: tuple[tuple[int, int], ...] = ()


class ChangeDiff(Struct, frozen=True, kw_only=True):
    """A change with its lines. `marks` of a line are [start, end) character ranges changed within the line. A `gap`
    line stands for unchanged lines left out; its `text` says how many."""

    change: Change
    lines: tuple[DiffLine, ...]
    truncated: bool = False
    note: str = ""


class Comment(Struct, frozen=True, kw_only=True):
    """The user's comment on a hunk, or on lines of a plan, until all comments are sent as one message. One per path and
    hunk.

    `start` and `lines` are the hunk's position in the pending file (1-indexed), `excerpt` its `-` and `+` lines. With
    `on_plan` they are the position in the plan's body and the lines themselves, and `hunk` is an id of the comment.
    """

    path: str
    hunk: str
    text: str
    start: int = 0
    lines: int = 0
    excerpt: str = ""
    on_plan: bool = False

    def find_line(self, body: str) -> int:
        """Return the line (1-indexed) of `body` that now has its lines, nearest to the original position; 0: they are
        gone."""
        excerpt_lines, body_lines = self.excerpt.split("\n"), body.split("\n")
        places = (
            index + 1
            for index in range(len(body_lines))
            if body_lines[index : index + len(excerpt_lines)] == excerpt_lines
        )
        return min(places, key=lambda line_number: (abs(line_number - self.start), line_number), default=0)


class ConflictRegion(Struct, frozen=True, kw_only=True):
    """One region where the user's file and the agent's both differ from the base, and from each other: its lines
    on each side, `start` the line (1-indexed) in the user's file, `before` a few unchanged lines above."""

    start: int
    base: tuple[str, ...]
    mine: tuple[str, ...]
    theirs: tuple[str, ...]
    before: tuple[str, ...] = ()


class ConflictSides(Struct, frozen=True, kw_only=True):
    """A change in conflict: the base, the file on disk (mine) and what the agent made (theirs).

    With a competing version: what it began with, what is pending (mine) and what it made (theirs); `mine_is` and
    `theirs_is` say whose they are then. `whole`: it can't be merged by lines (deleted, binary, a link): one region
    stands for the file, and only one of the two can be taken. `problem`: why there is nothing to choose.
    """

    path: str
    base: FileState
    mine: FileState
    theirs: FileState
    clashes: tuple[ConflictRegion, ...] = ()
    whole: bool = False
    language: str = ""
    problem: str = ""
    mine_is: str = ""
    theirs_is: str = ""


class ConflictChoice(Struct, frozen=True, kw_only=True):
    """The content chosen for a region in conflict. "both": mine, then theirs; "text": the text given here."""

    take: Literal["mine", "theirs", "both", "text"]
    text: str = ""


Severity = Literal["high", "medium", "low"]
FindingStanding = Literal["open", "dismissed", "fixing"]


class Finding(Struct, frozen=True, kw_only=True):
    """One finding. It is about the lines `start` to `end` (1-indexed, inclusive) of `path`, "" = about no place.

    `quote`: those lines as the reviewer gave them; `suggestion`: lines to stand in their place, None = there are none;
    `doubt`: what is off about the place, "" = the lines stand there.
    """

    id: Id
    severity: Severity
    title: str
    text: str = ""
    path: str = ""
    start: int = 0
    end: int = 0
    quote: str = ""
    suggestion: str | None = None
    doubt: str = ""

    @property
    def place(self) -> str:
        """The place as `path:line`, "" = none."""
        return f"{self.path}:{self.start}" if self.path else ""


class CommitTopic(Struct, frozen=True, kw_only=True):
    """Accepted edits that belong into one commit, by id. `title`: what they are about, in a few words."""

    title: str
    edits: tuple[str, ...]
