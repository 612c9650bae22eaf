from __future__ import annotations

from core.protocol.events import EvidenceRecorded
from core.protocol.evidence import CheckEvidence, HunkEvidence, Mutant
from core.protocol.review import Change, FileState, Hunk, VerdictRecord
from core.state.proof import ProofState
from core.state.proof_text import describe_accepted, find_actionable, format_proof, has_doubts, list_proof_rows

HUNKS = tuple(Hunk(id=f"h{line}", old_start=line, old_lines=1, new_start=line, new_lines=1) for line in (1, 5, 9, 13))
CHANGE = Change(path="shop/price.py", operation="edit", base=FileState(), pending=FileState(blob="b"), hunks=HUNKS)
CHECK = CheckEvidence(command="pytest -q", tests=3, seconds=0.6, canary="noticed")


def evidence(hunk: str, **fields: object) -> HunkEvidence:
    return HunkEvidence(**{"path": "shop/price.py", "hunk": hunk, "kind": "code", **fields})  # type: ignore[arg-type]


def proof_of(*hunks: HunkEvidence, check: CheckEvidence = CHECK) -> ProofState:
    proof = ProofState()
    proof.apply_evidence(EvidenceRecorded(check=check, hunks=hunks, text={"shop/price.py": CHANGE.pending}))
    return proof


GAP = Mutant(line=9, old=">=", new=">", is_noticed=False)
ALL = (
    evidence("h1", kind="docs"),
    evidence("h5", needed="checked", by_tests=("tests/test_price.py::test_price",)),
    evidence("h9", needed="checked", by_tests=("t.py::test_limit",), mutants=(GAP,)),
    evidence("h13", needed="unnoticed", executed="all", tests=2, is_confirmed=True),
)


def test_the_text_begins_with_what_is_worth_a_look_and_folds_the_rest():
    lines = format_proof(proof_of(*ALL), [CHANGE])
    places = [line.split()[0] for line in lines if line.startswith("shop/")]
    assert places == ["shop/price.py:13", "shop/price.py:9", "shop/price.py:5"]
    assert lines[0].startswith("Check: pytest -q: 3 tests passed, 0.6 s")
    assert ">= → >" in next(line for line in lines if line.startswith("shop/price.py:9"))
    assert lines[-1] == "Folded: 1 documentation"


def test_a_contract_is_first_within_its_word():
    first, second = evidence("h1", needed="used", message="NameError"), evidence("h5", needed="used", contract="schema")
    assert [row.hunk.id for row in list_proof_rows(proof_of(first, second), [CHANGE])] == ["h5", "h1"]


def test_nothing_known_is_no_text():
    assert format_proof(ProofState(), [CHANGE]) == []
    assert not has_doubts(ProofState(), [CHANGE])


def test_a_doubt_is_a_hunk_to_look_at_or_a_check_that_proves_nothing():
    assert has_doubts(proof_of(*ALL), [CHANGE])
    assert not has_doubts(proof_of(*ALL[:2]), [CHANGE])
    assert has_doubts(
        proof_of(*ALL[:2], check=CheckEvidence(command="make", problem="The check ran no test.")), [CHANGE]
    )


def test_the_author_is_told_what_nothing_notices_and_no_small_change():
    actionable = find_actionable(proof_of(*ALL), [CHANGE])
    assert actionable is not None
    assert [line.partition(":1")[0] for line in actionable.unnoticed] == ["shop/price.py"]
    assert ">=" not in "".join(actionable.unnoticed)
    assert find_actionable(proof_of(*ALL[:3]), [CHANGE]) is None


def test_the_author_is_told_nothing_that_an_edit_has_outdated():
    proof = proof_of(*ALL)
    proof.apply_edit("shop/price.py", FileState(blob="c"))
    assert find_actionable(proof, [CHANGE]) is None


def test_accepted_hunks_are_counted_with_gaps_among_the_checked_ones():
    states = (FileState(), FileState(), FileState(), FileState())
    names = ("base_before", "base_after", "pending_before", "pending_after")
    verdict = VerdictRecord(
        id="v", path="shop/price.py", verdict="accept", hunks=HUNKS, **dict(zip(names, states, strict=True))
    )
    assert describe_accepted(proof_of(*ALL), [verdict]) == "2 checked by tests, 1 not noticed by any"
    assert describe_accepted(ProofState(), [verdict]) == ""
