"""Commands about proposals: plans and todos, tries of a prompt, the pending review, and commits of accepted changes."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from core.ids import Id, OptionalId
from core.protocol.base import Command
from core.protocol.documents import Plan, Todo, TodoStatus
from core.protocol.review import ConflictChoice, Origin, ReviewPolicy, Verdict

MAX_SUBAGENTS: Final = 4  # The limit for subagents of a build.
HookPlace = Literal["box", "machine", "none"]


class PlanEdit(Command, frozen=True, kw_only=True, tag="plan.edit"):
    """None = leave as it is. With nothing to change, the plan becomes the one at hand. `base`: the plan that the change
    was made of, when it may be older than the one that the session has; what came between is merged."""

    path: str
    body: str | None = None
    todos: tuple[Todo, ...] | None = None
    name: str | None = None
    overview: str | None = None
    base: Plan | None = None


class PlanComment(Command, frozen=True, kw_only=True, tag="plan.comment"):
    """Comment on lines of a plan: `excerpt` as they stand in its body from line `start` on (1-indexed). With `id`, the
    text of that comment is replaced; without `text` it is removed."""

    path: str
    text: str
    start: int = 0
    excerpt: str = ""
    id: str = ""


class PlanBuild(Command, frozen=True, kw_only=True, tag="plan.build"):
    """Switch to Agent and work the plan, from where it stands. `todo`: only this one. `fresh`: the model is sent
    nothing of the conversation until here. `workers`: subagents at once, up to MAX_SUBAGENTS; 1 = the agent alone."""

    path: str
    todo: str = ""
    fresh: bool = False
    workers: int = 1


class TodoSet(Command, frozen=True, kw_only=True, tag="todo.set"):
    """A todo with a `verify` command is completed when that has passed; it is run for this. One that waits for others
    is not begun, and only completed `anyway`: the user was told what it waits for."""

    id: str
    status: TodoStatus
    plan: str = ""
    anyway: bool = False


class BestRun(Command, frozen=True, kw_only=True, tag="best.run"):
    """Try a prompt several times, each time in a shadow of its own; nothing is merged by itself. `models`: one for each
    candidate, "" = the session's; from 2 to MAX_SUBAGENTS. `attachments`: labels, as in `turn.submit`."""

    text: str
    models: tuple[str, ...]
    attachments: tuple[Id, ...] = ()


def parse_candidates(text: str) -> tuple[str, ...]:
    """Parse the models of a `best.run`: a number repeats the session's model, else they are comma-separated names."""
    if text.isdecimal() and len(text) < 3:
        return ("",) * int(text)
    return tuple(text.replace(",", " ").split())


class CandidatePick(Struct, frozen=True, kw_only=True):
    """A part of a candidate `id`: `hunks` of the file `path`, () = all of it; `path` "" = all that it changed."""

    id: Id
    path: str = ""
    hunks: tuple[str, ...] = ()


class BestTake(Command, frozen=True, kw_only=True, tag="best.take"):
    """Merge parts of candidates into what is pending. The command that candidates were checked by runs afterwards."""

    picks: tuple[CandidatePick, ...]


class HunkResolve(Command, frozen=True, kw_only=True, tag="hunk.resolve"):
    """`hunks` empty = all of the file; `path` "" = every change that is not protected. `origin`, with `path` "": of
    these only the changes whose origin agrees in every field that is not ""; `paths`: only these files, whole.
    `confirmed`: the user was told of the risk; without it a protected change is not accepted."""

    path: str
    verdict: Verdict
    hunks: tuple[str, ...] = ()
    reason: str = ""
    origin: Origin | None = None
    paths: tuple[str, ...] = ()
    confirmed: bool = False


class HunkCommand(Command, frozen=True, kw_only=True):
    """Base of the commands on one hunk, before its verdict."""

    path: str
    hunk: str


class HunkSplit(HunkCommand, frozen=True, kw_only=True, tag="hunk.split"):
    """Make two or more hunks of one. `line`: the line of the hunk (1-indexed, on its longer side) that begins the
    second; 0 = at its unchanged lines, else at blank lines, between statements or, in unknown languages, in the middle.
    A part that falls into no others is joined, as by `hunk.join`. Of a hunk that `moves`: make a creation and a
    deletion."""

    line: int = 0


class HunkJoin(HunkCommand, frozen=True, kw_only=True, tag="hunk.join"):
    """Make one hunk again of this one and the other parts that the same split made."""


class HunkEdit(HunkCommand, frozen=True, kw_only=True, tag="hunk.edit"):
    """Replace the new side of a hunk. `text` has "\\n" line endings; the file's own are put in their place."""

    text: str


class HunkComment(HunkCommand, frozen=True, kw_only=True, tag="hunk.comment"):
    """Set the comment on a hunk; `text` "" removes it."""

    text: str


class CommentsSend(Command, frozen=True, kw_only=True, tag="comments.send"):
    """Send all comments to the model as one message, headed by `note`; while a turn runs it steers it."""

    note: str = ""


class SymbolRename(Command, frozen=True, kw_only=True, tag="symbol.rename"):
    """Rename the name at a place (1-indexed, in characters) wherever it is used. The changes wait for a verdict."""

    path: str
    line: int
    column: int
    new_name: str


class ConflictResolve(Command, frozen=True, kw_only=True, tag="conflict.settle"):
    """Resolve a conflict with one choice for each region, in order. `mine` and `theirs` are the blobs of the two sides
    that were looked at. The result waits for a verdict, made from the file as it is on disk."""

    path: str
    choices: tuple[ConflictChoice, ...]
    mine: str = ""
    theirs: str = ""


class BulkResolve(Command, frozen=True, kw_only=True, tag="bulk.resolve"):
    """Give a verdict on a bulk as a whole. `confirmed`: the user was told what accepting the state of git means."""

    root: str
    verdict: Verdict
    confirmed: bool = False


class VerdictUndo(Command, frozen=True, kw_only=True, tag="verdict.undo"):
    """Undo a verdict; `id` "" = the latest one that stands."""

    id: OptionalId = ""


class ChangesVerify(Command, frozen=True, kw_only=True, tag="changes.verify"):
    """Run the checks that passed over pending changes again, each alone in a clean layer, and accept the changes that
    they prove. `tests_only`: only tests prove anything; `deletions`: files that are deleted are among the changes.
    Never what is protected or in conflict. Answered by `check.verified` for each, and `verification.finished`."""

    tests_only: bool = False
    deletions: bool = False


class ChangesProve(Command, frozen=True, kw_only=True, tag="changes.prove"):
    """Run the project's check over variants of the pending changes, and record what it says about each hunk. `check`:
    its command, "" = the session's or the configured one; `paths`: only these files, () = all; `seconds`: the limit
    after the first run, 0 = the configured one. Answered by `evidence.recorded`, and `proof.finished` at the end."""

    check: str = ""
    paths: tuple[str, ...] = ()
    seconds: float = 0.0


class ProofStop(Command, frozen=True, kw_only=True, tag="proof.stop"):
    """Stop the proof that runs; what it has learned is kept. Nothing is wrong if none runs."""


class ProvenAccept(Command, frozen=True, kw_only=True, tag="proven.accept"):
    """Accept the hunks that a test checks and those that need no test, as the evidence of the present text says. Never
    tests, files that decide how they run, deletions, or what is protected or in conflict."""


class HunkTestRequest(Command, frozen=True, kw_only=True, tag="hunk.test"):
    """Have the agent write a test that notices a hunk, in a turn in Agent mode."""

    path: str
    hunk: Id


class MutantDismiss(Command, frozen=True, kw_only=True, tag="mutant.dismiss"):
    """Say that an unnoticed small change of a hunk's line is not useful: such ones are not tried in this project any
    more."""

    path: str
    hunk: Id


class CheckpointRestore(Command, frozen=True, kw_only=True, tag="checkpoint.restore"):
    """Return to a checkpoint with the files, the conversation or both; what the user changed since stays. Refused while
    a turn or a command runs. A checkpoint is made before, so that it can be undone."""

    id: Id
    what: Literal["files", "conversation", "both"] = "both"


class FindingsFix(Command, frozen=True, kw_only=True, tag="findings.fix"):
    """Have the agent fix findings of the last code review, in a turn in Agent mode. `ids` empty = all that are open."""

    ids: tuple[Id, ...] = ()


class FindingsDismiss(Command, frozen=True, kw_only=True, tag="findings.dismiss"):
    """Dismiss findings; those that are dismissed already are open again."""

    ids: tuple[Id, ...]


class PlannedCommit(Struct, frozen=True, kw_only=True):
    """A commit to make: its message, and the ids of the accepted edits that it has (`CommitGroup.edits`)."""

    message: str
    edits: tuple[str, ...]


class CommitDraft(Command, frozen=True, kw_only=True, tag="commit.draft"):
    """Have a model write the messages of commits with these edits, in the style of the repository's log. Answered by
    `commit.drafted`."""

    groups: tuple[tuple[str, ...], ...]


class CommitSort(Command, frozen=True, kw_only=True, tag="commit.sort"):
    """Have a model sort accepted edits by topic, for a commit of each. `edits`: by id. Answered by `commit.sorted`."""

    edits: tuple[str, ...]


class CommitMake(Command, frozen=True, kw_only=True, tag="commit.make"):
    """Commit accepted hunks, one commit after the other. `head`: the last commit that they were planned for; it is
    refused if another one came. `hooks`: "box": the repository's hooks run in the box first, and if they pass, the
    user's git commits with them; "machine": only there; "none": the user's word that they are not run. Answered by
    `commit.made` for each, or `commit.failed`; those before it stay."""

    head: str
    commits: tuple[PlannedCommit, ...]
    hooks: HookPlace = "box"


class PullRequestDraft(Command, frozen=True, kw_only=True, tag="pull_request.draft"):
    """Have a model write title and text of a pull request of the current branch. Answered by `pull_request.drafted`."""


class PullRequestOpen(Command, frozen=True, kw_only=True, tag="pull_request.open"):
    """Push HEAD as `branch` of `remote`, and open a pull request into `base` where gh or glab is installed: on the
    user's machine, with their logins; the command is their yes. `is_draft`: one that is not ready for review. Answered
    by `pull_request.opened` or `commit.failed`."""

    branch: str
    base: str
    remote: str
    title: str
    body: str
    is_draft: bool = False


class ReviewPolicyKeep(Command, frozen=True, kw_only=True, tag="review.keep"):
    """Save how a client without a screen of ours asks about edits; the session is kept even if nothing was said in it.
    It decides nothing by itself: what may be accepted unasked is a matter of the client's own start."""

    policy: ReviewPolicy
