"""Evidence made by hand about the changes of the review case, as a proof records it."""

from __future__ import annotations

from core.protocol import events as e
from core.protocol.evidence import CheckEvidence, HunkEvidence, Mutant
from core.protocol.review import ChangeDiff
from core.state.proof import ProofState
from tests.tui.review_case import CASES, PRICES, TESTS, ReviewApp

CHECK = CheckEvidence(command="pytest -q", tests=412, seconds=4.1, canary="noticed", runs=31, run_seconds=19.0)
TEST = "tests/test_prices.py::test_{}"
NO_TESTS: tuple[str, ...] = ()


def evidence_of(diff: ChangeDiff, index: int, kind: str = "code", **more: object) -> HunkEvidence:
    fields: dict[str, object] = {"path": diff.change.path, "hunk": diff.change.hunks[index].id, "kind": kind}
    return HunkEvidence(**{**fields, **more})  # type: ignore[arg-type]


IMPORTS = evidence_of(PRICES, 0, "imports")
TYPES = evidence_of(PRICES, 1, "types")
UNNOTICED = evidence_of(PRICES, 2, executed="all", tests=37, needed="unnoticed", is_confirmed=True)
NEVER_RAN = evidence_of(PRICES, 3, executed="none", not_run=(143, 144, 145))
GAP = evidence_of(
    PRICES,
    2,
    executed="all",
    tests=3,
    needed="checked",
    by_tests=(TEST.format("total"),),
    message="AssertionError: assert 90 == 95",
    mutants=(Mutant(line=138, old=">=", new=">", is_noticed=False),),
)
CHECKED = evidence_of(
    CASES[1], 0, executed="all", tests=2, needed="checked", by_tests=(TEST.format("places"), TEST.format("unit"))
)
USED = evidence_of(CASES[2], 0, executed="import", needed="used", message="NameError: name 'old' is not defined")
TESTED = evidence_of(TESTS, 0, "test")
PROVEN = (IMPORTS, TYPES, UNNOTICED, NEVER_RAN, CHECKED, USED, TESTED)
WEAKENED = (f"{TESTS.change.path}:2", "1 assertion fewer")


def recorded_proof(*hunks: HunkEvidence, check: CheckEvidence = CHECK) -> e.EvidenceRecorded:
    """The event of a proof of all cases; `hunks` replace those of the same place."""
    by_place = {(one.path, one.hunk): one for one in (*PROVEN, *hunks)}
    text = {diff.change.path: diff.change.pending for diff in CASES}
    return e.EvidenceRecorded(check=check, hunks=tuple(by_place.values()), text=text)


def build_proof(*hunks: HunkEvidence, check: CheckEvidence = CHECK) -> ProofState:
    proof = ProofState()
    proof.apply_evidence(recorded_proof(*hunks, check=check))
    return proof


def show_proof(app: ReviewApp, proof: ProofState, proving: e.ProofProgressed | None = None) -> None:
    """Give the review of an app this evidence."""
    app.pane.show_proof(proof, app.changes, version=object())
    app.pane.browser.show_proving(proving)
    app.pane.set_changes(app.changes)
