"""Verification: a check that the program itself repeated, alone, in a clean layer, and its result; and proof: what it
learned of the pending hunks by running the check over variants of them.

A result is about a text (the content of some pending changes) over the disk's content at that time. It is valid for
exactly that: both are compared by their content, never by time. Evidence of hunks arrives in pieces, of which the later
ones replace the earlier ones of the same hunk.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from core.protocol.base import Event, LossyEvent
from core.protocol.evidence import CheckEvidence, HunkEvidence
from core.protocol.review import Check, CheckKind, FileState

# "unclear": it could not be run, or it failed because files that only the session's commands created were missing.
VerificationOutcome = Literal["passed", "failed", "unclear"]


class Verification(Struct, frozen=True, kw_only=True):
    """The result of one check. `problem`: why it proves nothing, as a sentence, "" = it has passed.

    `text`: the judged content by path; `content`: the digest of the text, disk and environment, "" = the project is too
    large to be compared, so the result can't be used again. `paths`: the paths that the check covered, () = the
    project. `changed_here`: paths of the text that decide the result (tests, settings of the runner). `passed`,
    `failed` and `skipped`: tests that it counted, None = it counted none. `output`: its end.
    """

    command: str
    outcome: VerificationOutcome
    kind: CheckKind = "check"
    exit_code: int | None = None
    duration_ms: int = 0
    problem: str = ""
    text: dict[str, FileState] = {}
    content: str = ""
    paths: tuple[str, ...] = ()
    changed_here: tuple[str, ...] = ()
    passed: int | None = None
    failed: int | None = None
    skipped: int | None = None
    output: str = ""

    @property
    def is_proof(self) -> bool:
        """True if it has passed by tests and settings that the text itself does not change."""
        return self.outcome == "passed" and not self.changed_here

    def build_check(self) -> Check:
        """Return the result as the check that a change displays."""
        return Check(
            call="",
            command=self.command,
            exit_code=0 if self.outcome == "passed" else self.exit_code or 1,
            paths=self.paths,
            kind=self.kind,
            is_verified=self.is_proof,
            changed_here=self.changed_here if self.outcome == "passed" else (),
        )


class VerificationRecorded(Event, frozen=True, kw_only=True, tag="check.verified"):
    """The program repeated a check, alone, in a clean layer."""

    result: Verification


class VerificationProgressed(LossyEvent, frozen=True, kw_only=True, tag="verification.progressed"):
    """Lossy: the check that runs now ("" = none), and its output since the last such event."""

    command: str
    text: str = ""


class VerificationFinished(Event, frozen=True, kw_only=True, tag="verification.finished"):
    """All checks of a `changes.verify` have ended. `accepted`: the paths that were written to the project; `reason`:
    why the others, or all, were not, as sentences, "" = none was left."""

    accepted: tuple[str, ...] = ()
    reason: str = ""


class EvidenceRecorded(Event, frozen=True, kw_only=True, tag="evidence.recorded"):
    """New evidence of hunks, and of the check (None = as before). `text`: with the first piece of a proof, the content
    by path that it is about; in later ones it is empty."""

    check: CheckEvidence | None = None
    hunks: tuple[HunkEvidence, ...] = ()
    text: dict[str, FileState] = field(default_factory=dict)


class MutantDismissed(Event, frozen=True, kw_only=True, tag="mutant.dismissed"):
    """The user found a small change of a file useless to try: `old` that becomes `new`."""

    path: str
    old: str
    new: str


class ProofProgressed(LossyEvent, frozen=True, kw_only=True, tag="proof.progressed"):
    """Lossy: the check of the proof that runs now ("" = none), and how many hunks are looked into, of how many."""

    command: str
    finished: int = 0
    total: int = 0


class ProofFinished(Event, frozen=True, kw_only=True, tag="proof.finished"):
    """A proof has ended. `reason`: why something was not looked into, as a sentence, "" = everything was. `stopped`: it
    was stopped before its end, so that it can be continued."""

    reason: str = ""
    stopped: bool = False
