"""Events of proposals: plans and todos, subagents (sessions with a log and a shadow), and the pending review."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from core.ids import Id, OptionalId
from core.protocol.base import Event, IdEvent, IdsEvent, LossyEvent, TurnEnd
from core.protocol.documents import Plan, Todo
from core.protocol.language import Diagnostic
from core.protocol.messages import Usage
from core.protocol.review import (
    Bulk,
    Change,
    Check,
    Comment,
    CommitTopic,
    FileState,
    Finding,
    FindingStanding,
    ReviewPolicy,
    VerdictRecord,
)


class PlanCreated(Event, frozen=True, kw_only=True, tag="plan.created"):
    plan: Plan


class PlanUpdated(Event, frozen=True, kw_only=True, tag="plan.updated"):
    plan: Plan


class PlanWritten(Event, frozen=True, kw_only=True, tag="plan.written"):
    """The file of a plan now holds `state` (kind absent: it was removed, and is no longer a plan), instead of `before`.
    A `path` outside the project is absolute."""

    path: str
    state: FileState
    before: FileState


class PlanCommented(Event, frozen=True, kw_only=True, tag="plan.commented"):
    """The comment of this id on lines of a plan is set; without text it is removed."""

    comment: Comment


class TodoVerified(IdEvent, frozen=True, kw_only=True, tag="todo.verified"):
    """The command of a todo ran alone in a clean layer; `exit_code` None = it did not end. `output` is its last part.
    `problem`: why it proves nothing, as a sentence; `changed_here`: pending files that decide its result. `is_unboxed`:
    there is no box, and it ran in the project itself, which verifies nothing. `id` is the todo's, which a model may
    have chosen."""

    id: str
    command: str
    exit_code: int | None
    output: str = ""
    plan: str = ""
    duration_ms: int = 0
    problem: str = ""
    changed_here: tuple[str, ...] = ()
    is_unboxed: bool = False

    @property
    def has_passed(self) -> bool:
        """True if the run proves the todo."""
        return self.exit_code == 0 and not self.problem


class TodoChanged(Event, frozen=True, kw_only=True, tag="todo.changed"):
    """The session's task list, whole. `plan` is the path of the plan that it belongs to, "" = none."""

    todos: tuple[Todo, ...]
    plan: str = ""


class SubagentAction(Struct, frozen=True, kw_only=True):
    """One line about an action or a statement of a subagent; `status` as of a tool call, "said" for a statement."""

    text: str
    status: Literal["running", "completed", "failed", "denied", "cancelled", "said"] = "said"


class SubagentStarted(IdEvent, frozen=True, kw_only=True, tag="subagent.started"):
    """A subagent began or continued: on a todo of a plan, as the agent `agent` on a task of the tool call `call`, or as
    a candidate of the turn `candidate_of`, which tries a prompt several times. `id` names it and its log; `title` is
    its subject."""

    todo: str = ""
    plan: str = ""
    agent: str = ""
    call: str = ""
    title: str = ""
    model: str = ""
    again: bool = False
    candidate_of: OptionalId = ""


class SubagentProgressed(LossyEvent, frozen=True, kw_only=True, tag="subagent.progressed"):
    """Lossy: its current activity, a few times a second at most. `acts` are the latest actions, `count` their total;
    `changed`: the number of changed files; `usage` and `duration_ms` since its last start."""

    id: Id
    acts: tuple[SubagentAction, ...] = ()
    count: int = 0
    steps: int = 0
    changed: int = 0
    usage: Usage = Usage()
    duration_ms: int = 0


class SubagentFinished(IdEvent, frozen=True, kw_only=True, tag="subagent.finished"):
    """A subagent stopped. Its work stays with it until it is merged; `message`: why it could not finish; `said`: its
    last words; `usage` and `duration_ms` since its last start."""

    reason: TurnEnd
    message: str = ""
    said: str = ""
    acts: tuple[SubagentAction, ...] = ()
    steps: int = 0
    usage: Usage = Usage()
    duration_ms: int = 0


class ChangedFile(Struct, frozen=True, kw_only=True):
    """A file that a candidate changed, with the numbers of added and removed lines."""

    path: str
    added: int = 0
    removed: int = 0


class SubagentRated(IdEvent, frozen=True, kw_only=True, tag="subagent.rated"):
    """A candidate has ended: its changed files, and the result of the command that checks all candidates; None = there
    is no such command."""

    files: tuple[ChangedFile, ...] = ()
    check: Check | None = None


class SubagentMerging(IdEvent, frozen=True, kw_only=True, tag="subagent.merging"):
    """Until `subagent.merged`, changes come from this subagent; the merge is continued after a crash."""


class SubagentMerged(IdEvent, frozen=True, kw_only=True, tag="subagent.merged"):
    """The changes of a subagent are pending here: `paths`, of which `conflicts` wait for the user; `generated` files
    outside the review, and `notes` on differences. `refused` paths can't be merged now, and are tried again later."""

    paths: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    generated: int = 0
    notes: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


class ReviewPolicyKept(Event, frozen=True, kw_only=True, tag="review.kept"):
    """The review policy of a client without a screen of ours, as the user chose it there."""

    policy: ReviewPolicy


class ChangeProposed(Event, frozen=True, kw_only=True, tag="change.proposed"):
    change: Change


class ChangeRevised(Event, frozen=True, kw_only=True, tag="change.revised"):
    """A change of the same path as an earlier one, which it replaces. `parts`: the hunks that a split made of one."""

    change: Change
    parts: tuple[Id, ...] = ()


class ChangeResolved(Event, frozen=True, kw_only=True, tag="change.resolved"):
    """The path has no pending change any more."""

    path: str


class ChangeConflicted(Event, frozen=True, kw_only=True, tag="change.conflicted"):
    path: str
    reason: str


class VerdictGiven(Event, frozen=True, kw_only=True, tag="verdict.given"):
    verdict: VerdictRecord


class VerdictUndone(IdEvent, frozen=True, kw_only=True, tag="verdict.undone"):
    path: str


class VerdictsReported(IdsEvent, frozen=True, kw_only=True, tag="verdicts.reported"):
    """The model was sent these verdicts, and these edits of hunks (ids)."""


class UserEditMerged(IdEvent, frozen=True, kw_only=True, tag="user_edit.merged"):
    """The user edited a file of the project with a pending change, and both are merged (see `change.revised`).
    `excerpt`: the lines that the user removed and added."""

    path: str
    excerpt: str = ""


class HunkEdited(IdEvent, frozen=True, kw_only=True, tag="hunk.edited"):
    """The user changed a proposal of the agent (see `change.revised`); `excerpt`: the pending hunk now."""

    path: str
    start: int
    lines: int
    excerpt: str = ""


class HunkCommented(Event, frozen=True, kw_only=True, tag="hunk.commented"):
    """The comment on this path and hunk is set; without text it is removed."""

    comment: Comment


class CommentsSent(Event, frozen=True, kw_only=True, tag="comments.sent"):
    """All comments were sent to the model."""


class FileWritten(Event, frozen=True, kw_only=True, tag="file.written"):
    """A path of the workspace now holds `state` (kind absent: it was removed), instead of `before`."""

    path: str
    state: FileState
    before: FileState | None = None


class CommitDrafted(Event, frozen=True, kw_only=True, tag="commit.drafted"):
    """Messages for commits, in the order of the requested groups. `model` "": none wrote them."""

    messages: tuple[str, ...]
    model: str = ""


class CommitSorted(Event, frozen=True, kw_only=True, tag="commit.sorted"):
    """Accepted edits by topic. `model` "": none sorted them, and they are one topic."""

    topics: tuple[CommitTopic, ...]
    model: str = ""


class CommitMade(IdEvent, frozen=True, kw_only=True, tag="commit.made"):
    """The user's repository has a new commit, `id`, of accepted hunks. `edits`: their ids; `branch` "": HEAD is
    detached. `output`: the output of hooks. `problem`: why the user's index was not updated, and how to update it."""

    branch: str
    subject: str
    edits: tuple[str, ...]
    files: tuple[str, ...]
    output: str = ""
    problem: str = ""


class CommitFailed(Event, frozen=True, kw_only=True, tag="commit.failed"):
    """A commit was not made, or not pushed, and left no trace. `stage`: the step that failed. `output`: the output of
    hooks or git. `changed`: paths that hooks changed; these changes wait for the review, unless another one waits
    there."""

    stage: Literal["check", "box", "git", "push", "pull_request"]
    message: str
    hint: str = ""
    output: str = ""
    changed: tuple[str, ...] = ()


class CommitProgressed(LossyEvent, frozen=True, kw_only=True, tag="commit.progressed"):
    """Lossy: the output of a commit's hooks while they run."""

    text: str


class PullRequestDrafted(Event, frozen=True, kw_only=True, tag="pull_request.drafted"):
    """Title and text of a pull request. `model` "": none wrote them."""

    title: str
    body: str
    model: str = ""


class PullRequestOpened(Event, frozen=True, kw_only=True, tag="pull_request.opened"):
    """The branch was pushed. `url`: the pull request, or the page that opens one; "" = unknown."""

    branch: str
    url: str = ""
    output: str = ""


class FindingsReported(Event, frozen=True, kw_only=True, tag="findings.reported"):
    """A code review has ended with these findings, which replace those of the last one. `subject`: the reviewed code,
    in a few words; `revision`: its last commit, "" = the files on disk; `turn`: that of the reviewer."""

    turn: Id
    subject: str
    findings: tuple[Finding, ...]
    revision: str = ""


class FindingsSettled(IdsEvent, frozen=True, kw_only=True, tag="findings.settled"):
    """These findings are dismissed, reopened, or being fixed by a `turn`."""

    standing: FindingStanding
    turn: OptionalId = ""


class FilesChanged(LossyEvent, frozen=True, kw_only=True, tag="files.changed"):
    """Lossy: paths of the workspace that changed on disk; empty = too many to name, look again."""

    paths: tuple[str, ...] = ()


class LayersChanged(Event, frozen=True, kw_only=True, tag="layers.changed"):
    """The effects of commands outside reviewed changes: all stored layers, lowest first, and the bulks in them."""

    layers: tuple[Id, ...]
    bulks: tuple[Bulk, ...]


class EffectsRecorded(Event, frozen=True, kw_only=True, tag="effects.recorded"):
    """The effects of a command on the tree. `created`, `edited`, `deleted`: paths with a change that is pending now;
    `restored`: those that are the project's own again; `folders`: new empty directories, `removed_folders` those that
    are gone; `git`: what became of references, in one line; `generated`: the number of files that are only counted;
    `notes`: dropped effects and the reasons. All empty: it had
    no lasting effect. `on_machine`: it ran outside the box, so these are changes of the user's own files, which wait
    for no review; `in_place`: as the user chose for every command."""

    call: str
    command: str
    created: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    removed_folders: tuple[str, ...] = ()
    git: str = ""
    generated: int = 0
    notes: tuple[str, ...] = ()
    discarded: bool = False
    on_machine: bool = False
    in_place: bool = False


class CheckRecorded(Event, frozen=True, kw_only=True, tag="check.recorded"):
    """A command that checks (tests, a build, a linter) ran over all changes that are pending at this moment."""

    check: Check


class DiagnosticsReported(Event, frozen=True, kw_only=True, tag="diagnostics.reported"):
    """The diagnostics that the pending version of a file has and the user's version does not, errors first; none: there
    are no new ones. `sources`: the servers that checked it; `more_errors`, `more_warnings`: how many are not listed."""

    path: str
    diagnostics: tuple[Diagnostic, ...] = ()
    sources: tuple[str, ...] = ()
    more_errors: int = 0
    more_warnings: int = 0
