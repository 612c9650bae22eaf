"""Proof: what the program learned of the pending hunks by running the project's check over variants of them.

Evidence is about a text: the content of all pending changes at that time, over the project's files. It arrives in
pieces, of which the later ones replace the earlier ones of the same hunk.
"""

from __future__ import annotations

from msgspec import field

from core.protocol.base import Event, LossyEvent
from core.protocol.evidence import CheckEvidence, HunkEvidence
from core.protocol.review import FileState


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
