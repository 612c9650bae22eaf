"""The pending review in the session's state: changes by path, current verdicts, comments, and the bulks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from core.protocol import events as ev
from core.protocol.events.verification import Verification
from core.protocol.review import Bulk, Change, Comment, Hunk, VerdictRecord
from core.state.findings import CodeReview, SettledFinding
from core.state.proof import ProofState

MAX_SPLITS: Final = 100  # that are remembered


class ReviewCheckpoint(Struct, frozen=True, kw_only=True):
    """The review at a checkpoint; `written`: the number of earlier writes to the workspace."""

    changes: Mapping[str, Change]
    verdicts: tuple[VerdictRecord, ...]
    bulks: tuple[Bulk, ...]
    generated: bool
    written: int


class SplitRecord(Struct, frozen=True, kw_only=True):
    """A hunk of `path` that was split into `parts`; `verdicts`: the ids of those that were standing then."""

    path: str
    parts: tuple[str, ...]
    verdicts: frozenset[str]

    def find_run(self, change: Change | None, hunk: str) -> tuple[Hunk, ...]:
        """Return the pending parts around a hunk ("" = the first with another), none missing between them."""
        places = {part: place for place, part in enumerate(self.parts)}
        runs: list[list[Hunk]] = [[]]
        for pending in change.hunks if change is not None else ():
            is_next = runs[-1] and places.get(pending.id) == places[runs[-1][-1].id] + 1
            if pending.id in places and not is_next:
                runs.append([])
            if pending.id in places:
                runs[-1].append(pending)
        fitting = (run for run in runs if len(run) > 1 and (not hunk or any(part.id == hunk for part in run)))
        return tuple(next(fitting, ()))


@dataclass(slots=True)
class ReviewState:
    """The review. `changes` by path; `hunk_calls`: the call that made each of their hunks, by path and id, "" = the
    user did; `verdicts` in order, without undone ones; `commits` made of them; `layers` of commands' effects, lowest
    first, and the `bulks` in them; `splits` of hunks, the last one last; `comments` by path and hunk that the model has
    not been sent; `accepted_comments`: those of hunks that were accepted, by verdict; `diagnostics` of the pending text
    by path; `code_review`: the last one; `verifications`: the last one of every command; `verified_last`: the end of
    the last of all; `proof`: the evidence of the hunks. Only `apply` changes it, and `version` with it. `writes`,
    `plan_paths` (those of plans) and `checkpoints` (by id) serve to restore files."""

    version: int = 0
    changes: dict[str, Change] = field(default_factory=dict)
    hunk_calls: dict[str, dict[str, str]] = field(default_factory=dict)
    verdicts: list[VerdictRecord] = field(default_factory=list)
    commits: list[ev.CommitMade] = field(default_factory=list)
    layers: tuple[str, ...] = ()
    bulks: tuple[Bulk, ...] = ()
    splits: list[SplitRecord] = field(default_factory=list)
    comments: dict[tuple[str, str], Comment] = field(default_factory=dict)
    accepted_comments: dict[str, tuple[Comment, ...]] = field(default_factory=dict)
    diagnostics: dict[str, ev.DiagnosticsReported] = field(default_factory=dict)
    code_review: CodeReview | None = None
    verifications: dict[str, Verification] = field(default_factory=dict)
    verified_last: ev.VerificationFinished | None = None
    proof: ProofState = field(default_factory=ProofState)
    writes: list[ev.FileWritten] = field(default_factory=list)
    plan_paths: set[str] = field(default_factory=set)
    checkpoints: dict[str, ReviewCheckpoint] = field(default_factory=dict)

    @property
    def committed(self) -> set[str]:
        """The ids of the verdicts of which a part was committed in this session."""
        return {edit.partition(".")[0] for commit in self.commits for edit in commit.edits}

    def find_joinable(self, path: str, hunk: str) -> tuple[Hunk, ...]:
        """Return the pending hunks of which the last split of `hunk` made several; nothing if it is no part of one."""
        runs = (
            record.find_run(self.changes.get(path), hunk) for record in reversed(self.splits) if record.path == path
        )
        return next(filter(None, runs), ())

    @property
    def last_split(self) -> tuple[str, str] | None:
        """The path of the last split that can be undone, and one of its parts; None: there is none, or a verdict was
        given after it."""
        for record in reversed(self.splits):
            if run := record.find_run(self.changes.get(record.path), ""):
                is_last = record.verdicts.issuperset(verdict.id for verdict in self.verdicts)
                return (record.path, run[0].id) if is_last else None
        return None

    def apply(self, event: ev.AnyEvent) -> None:
        """Apply one event; events that are not about the review change nothing."""
        step = REVIEW_STEPS.get(type(event)) or RESTORE_STEPS.get(type(event))
        if step is not None:
            self.version += 1
            step(self, event)


ReviewStep = Callable[[ReviewState, Any], None]


def _set_change(review: ReviewState, event: ev.ChangeProposed | ev.ChangeRevised) -> None:
    previous_change = review.changes.get(event.change.path)
    review.changes[event.change.path] = event.change
    origin, known = event.change.origin, review.hunk_calls.get(event.change.path, {})
    call = origin.call if origin is not None and origin.tool != "you" else ""
    review.hunk_calls[event.change.path] = {hunk.id: known.get(hunk.id, call) for hunk in event.change.hunks}
    review.proof.apply_edit(event.change.path, event.change.pending)
    if previous_change is None or previous_change.pending != event.change.pending:  # They are about another text.
        review.diagnostics.pop(event.change.path, None)


def _revise_change(review: ReviewState, event: ev.ChangeRevised) -> None:
    _set_change(review, event)
    if event.parts:
        standing = frozenset(verdict.id for verdict in review.verdicts)
        record = SplitRecord(path=event.change.path, parts=event.parts, verdicts=standing)
        review.splits = [*review.splits[1 - MAX_SPLITS :], record]


def _drop_change(review: ReviewState, event: ev.ChangeResolved) -> None:
    review.changes.pop(event.path, None)
    review.hunk_calls.pop(event.path, None)
    review.diagnostics.pop(event.path, None)


def _set_diagnostics(review: ReviewState, event: ev.DiagnosticsReported) -> None:
    if event.diagnostics or event.sources:
        review.diagnostics[event.path] = event
    else:
        review.diagnostics.pop(event.path, None)


def _mark_conflict(review: ReviewState, event: ev.ChangeConflicted) -> None:
    if (change := review.changes.get(event.path)) is not None:
        review.changes[event.path] = replace(change, conflict=event.reason)


def _add_verdict(review: ReviewState, event: ev.VerdictGiven) -> None:
    verdict = event.verdict
    review.verdicts.append(verdict)
    if verdict.verdict == "reject":  # Without the hunk, the text is another.
        review.proof.apply_edit(verdict.path, None)
    elif verdict.settled is None:  # A comment on what the user has accepted asks for nothing any more.
        keys = [(verdict.path, hunk.id) for hunk in verdict.hunks]
        if comments := tuple(review.comments[key] for key in keys if key in review.comments):
            review.accepted_comments[verdict.id] = comments
            review.comments = {key: comment for key, comment in review.comments.items() if key not in keys}


def _undo_verdict(review: ReviewState, event: ev.VerdictUndone) -> None:
    for comment in review.accepted_comments.pop(event.id, ()):
        review.comments.setdefault((comment.path, comment.hunk), comment)
    review.verdicts = [verdict for verdict in review.verdicts if verdict.id != event.id]


def _add_commit(review: ReviewState, event: ev.CommitMade) -> None:
    review.commits.append(event)


def _set_layers(review: ReviewState, event: ev.LayersChanged) -> None:
    review.layers, review.bulks = event.layers, event.bulks


def _set_check(review: ReviewState, event: ev.CheckRecorded) -> None:
    check = event.check
    review.changes = {
        path: replace(change, check=check) if check.covers(path) else change for path, change in review.changes.items()
    }


def _add_verification(review: ReviewState, event: ev.VerificationRecorded) -> None:
    """Mark the changes whose text was checked, and no later one; an inconclusive run marks none."""
    result = event.result
    review.verifications[result.command] = result
    if result.outcome == "unclear":
        return
    check, changes = result.build_check(), dict(review.changes)
    for path, state in result.text.items():
        change = changes.get(path)
        if change is not None and change.pending == state and check.covers(path):
            changes[path] = replace(change, check=check)
    review.changes = changes


def _finish_verification(review: ReviewState, event: ev.VerificationFinished) -> None:
    review.verified_last = event


def _add_evidence(review: ReviewState, event: ev.EvidenceRecorded) -> None:
    review.proof.apply_evidence(event)


def _dismiss_mutant(review: ReviewState, event: ev.MutantDismissed) -> None:
    review.proof.apply_dismissal(event)


def _finish_proof(review: ReviewState, event: ev.ProofFinished) -> None:
    review.proof.apply_end(event)


def _set_comment(review: ReviewState, event: ev.HunkCommented | ev.PlanCommented) -> None:
    comment = event.comment
    review.comments.pop((comment.path, comment.hunk), None)
    if comment.text:
        review.comments[comment.path, comment.hunk] = comment


def _clear_comments(review: ReviewState, _: ev.CommentsSent) -> None:
    review.comments = {}


def _set_code_review(review: ReviewState, event: ev.FindingsReported) -> None:
    review.code_review = CodeReview(event.turn, event.subject, event.revision, event.findings)


def _settle_findings(review: ReviewState, event: ev.FindingsSettled) -> None:
    if (code_review := review.code_review) is not None:
        settled_findings = dict.fromkeys(event.ids, SettledFinding(event.standing, event.turn))
        review.code_review = code_review._replace(settled={**code_review.settled, **settled_findings})


def _add_write(review: ReviewState, event: ev.FileWritten) -> None:
    if event.before is not None:
        review.writes.append(event)


def _add_plan_write(review: ReviewState, event: ev.PlanWritten) -> None:
    review.writes.append(ev.FileWritten(path=event.path, state=event.state, before=event.before))
    review.plan_paths.add(event.path)


def _add_checkpoint(review: ReviewState, event: ev.CheckpointCreated) -> None:
    review.checkpoints[event.id] = ReviewCheckpoint(
        changes=dict(review.changes),
        verdicts=tuple(review.verdicts),
        bulks=review.bulks,
        generated=event.generated,
        written=len(review.writes),
    )


REVIEW_STEPS: dict[type[ev.Event], ReviewStep] = {
    ev.ChangeProposed: _set_change,
    ev.ChangeRevised: _revise_change,
    ev.ChangeResolved: _drop_change,
    ev.ChangeConflicted: _mark_conflict,
    ev.VerdictGiven: _add_verdict,
    ev.VerdictUndone: _undo_verdict,
    ev.CommitMade: _add_commit,
    ev.LayersChanged: _set_layers,
    ev.CheckRecorded: _set_check,
    ev.VerificationRecorded: _add_verification,
    ev.VerificationFinished: _finish_verification,
    ev.EvidenceRecorded: _add_evidence,
    ev.MutantDismissed: _dismiss_mutant,
    ev.ProofFinished: _finish_proof,
    ev.HunkCommented: _set_comment,
    ev.PlanCommented: _set_comment,
    ev.CommentsSent: _clear_comments,
    ev.DiagnosticsReported: _set_diagnostics,
    ev.FindingsReported: _set_code_review,
    ev.FindingsSettled: _settle_findings,
}
# Needed only to restore files.
RESTORE_STEPS: dict[type[ev.Event], ReviewStep] = {
    ev.FileWritten: _add_write,
    ev.PlanWritten: _add_plan_write,
    ev.CheckpointCreated: _add_checkpoint,
}
