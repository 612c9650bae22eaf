from __future__ import annotations

from dataclasses import replace as replace_data

import pytest
from msgspec.structs import replace

from core.protocol.events import EvidenceRecorded, ProofFinished
from core.protocol.evidence import CheckEvidence, HunkEvidence, Mutant
from core.protocol.review import Change, FileState, Hunk
from core.state.proof import (
    LOOK_AT,
    ORDER,
    ProofState,
    count_kinds,
    describe_check_run,
    describe_problem,
    explain_check,
    explain_hunk,
    format_lines,
    iterate_judgements,
    judge_hunk,
    summarize_proof,
)

HUNK = Hunk(id="h", old_start=10, old_lines=2, new_start=10, new_lines=3)
CHANGE = Change(
    path="src/prices.py", operation="edit", base=FileState(blob="a"), pending=FileState(blob="b"), hunks=(HUNK,)
)
CHECK = CheckEvidence(command="pytest -q", tests=412, seconds=4.1, canary="noticed")
TOTAL, LIMIT = "tests/test_prices.py::test_total", "tests/test_prices.py::test_limit"
GAP = Mutant(line=11, old=">=", new=">", is_noticed=False)


def evidence(**fields: object) -> HunkEvidence:
    return HunkEvidence(**{"path": CHANGE.path, "hunk": "h", "kind": "code", **fields})  # type: ignore[arg-type]


def prove(*hunks: HunkEvidence, check: CheckEvidence = CHECK) -> ProofState:
    proof = ProofState()
    proof.apply_evidence(EvidenceRecorded(check=check, hunks=hunks, text={CHANGE.path: CHANGE.pending}))
    return proof


@pytest.mark.parametrize(
    ("fields", "text", "detail", "loss"),
    [
        (
            {"needed": "checked", "executed": "all", "by_tests": (LIMIT,)},
            *("checked", "test_limit", "without it, test_limit fails"),
        ),
        (
            {"needed": "checked", "executed": "part", "by_tests": (LIMIT, TOTAL, "t::c"), "not_run": (11,)},
            *("checked", "test_limit, test_total (+1) · line 11 never ran"),
            "without it, test_limit, test_total (+1) fail · line 11 never ran",
        ),
        ({"needed": "checked", "executed": "all"}, "checked", "", "without it, the check fails"),
        (
            {"needed": "checked", "by_tests": (LIMIT,), "mutants": (GAP,), "group": ("h", "i", "j")},
            *("checked, one gap", ">= → > unnoticed · test_limit"),
            "without it and 2 other hunks, test_limit fails · >= → > unnoticed",
        ),
        (
            {"needed": "checked", "by_tests": (LIMIT,), "mutants": (GAP, GAP, replace(GAP, is_noticed=True))},
            *("checked, 2 gaps", ">= → > unnoticed · >= → > unnoticed · test_limit"),
            "without it, test_limit fails · >= → > unnoticed · >= → > unnoticed",
        ),
        ({"needed": "used", "message": "NameError: x"}, "used, not checked", *["without it: NameError: x"] * 2),
        ({"needed": "used"}, "used, not checked", *["without it, something crashes"] * 2),
        ({"needed": "hangs"}, "used, not checked", *["without it, the check never ends"] * 2),
        (
            {"needed": "unnoticed", "executed": "all", "tests": 37, "is_confirmed": True},
            *("runs, nothing notices", "without it, all tests pass (37 tests run it)", "without it, all tests pass"),
        ),
        (
            {"needed": "unnoticed", "executed": "all", "tests": 1},
            *("runs, nothing notices", *["without it, the test that runs it passes"] * 2),
        ),
        ({"needed": "unnoticed"}, "nothing notices", *["without it, all tests pass"] * 2),
        (
            {"needed": "old_tests", "executed": "all", "by_tests": (LIMIT,)},
            *("only old tests notice", "with it, test_limit fails in the old version", "without it, all tests pass"),
        ),
        (
            {"needed": "same", "group": ("h", "i")},
            "behaves as before",
            *["without it and 1 other hunk, all tests pass, and they fail when its lines are changed"] * 2,
        ),
        ({"needed": "removed"}, "removed", "no test misses it", "without it, all tests pass"),
        (
            {"needed": "checked", "by_tests": (LIMIT,), "lost_tests": (TOTAL,)},
            *("checked, test gone", "with it, test_total fails, deleted here"),
            "without it, test_limit fails · with it, test_total fails, deleted here",
        ),
        ({"executed": "none", "not_run": (11, 12, 14)}, "never ran", "no test reaches lines 11-12, 14", ""),
        (
            {"executed": "none", "needed": "unnoticed"},
            *("never ran", "no test reaches it", "without it, all tests pass · no test reaches it"),
        ),
        ({"unknown": "out of time"}, "not looked into", "out of time", ""),
        ({}, "not looked into yet", "", ""),
        ({"kind": "steering"}, "decides how tests run", "the check ran by changed rules", ""),
        ({"kind": "imports"}, "imports only", "", ""),
        ({"kind": "uniform", "substitution": "a → b"}, "same edit", "a → b", ""),
    ],
)
def test_a_hunk_is_judged_in_words_and_rejecting_it_is_told_before(fields, text, detail, loss):
    judgement = judge_hunk(CHANGE, HUNK, evidence(**fields), CHECK)
    assert (judgement.text, judgement.detail, judgement.loss) == (text, detail, loss)


@pytest.mark.parametrize(
    ("check", "heading", "word"),
    [
        (
            replace(CHECK, problem="a fault was not noticed", canary="missed"),
            "The check proves nothing",
            "proves_nothing",
        ),
        (replace(CHECK, problem="it fails", failing=(TOTAL,)), "The check fails", "fails"),
        (replace(CHECK, problem="No tests have run.", command=""), "Nothing was run", "checked"),
        (CHECK, "", "checked"),
    ],
)
def test_a_check_that_can_not_be_relied_on_stands_over_what_it_says(check, heading, word):
    checked = evidence(needed="checked", executed="all", by_tests=(LIMIT,))
    assert judge_hunk(CHANGE, HUNK, checked, check).word == word
    assert describe_problem(check)[0] == heading
    assert judge_hunk(CHANGE, HUNK, evidence(executed="none"), check).word == "never_ran"


@pytest.mark.parametrize(
    ("fields", "text", "detail"),
    [
        ({"weakened": (("tests/test_prices.py:11", "1 assertion fewer"),)}, "test weakened", "1 assertion fewer"),
        ({"weakened": (("tests/test_prices.py:gone", "x"),)}, "test", ""),
        ({"broken_old": (TOTAL,)}, "test", "its old text fails over the new code: test_total"),
        ({"red_new": (TOTAL,)}, "test", "fails without the change: test_total"),
        ({"green_new": (TOTAL,)}, "test", "passes without the change too: test_total"),
        ({"red_new": ("tests/other.py::test_x",)}, "test", ""),
    ],
)
def test_a_test_is_judged_by_what_it_did_before_the_change(fields, text, detail):
    change = replace(CHANGE, path="tests/test_prices.py")
    own = evidence(path=change.path, kind="test", touched=("test_total",))
    judgement = judge_hunk(change, HUNK, own, replace(CHECK, **fields))
    assert (judgement.text, judgement.detail, judgement.is_proven) == (text, detail, False)


@pytest.mark.parametrize(
    ("test", "touched", "detail"),
    [
        (TOTAL, ("test_other",), ""),
        (f"{TOTAL}[1-EUR]", ("test_total",), "fails without the change: test_total[1-EUR]"),
        ("test_prices.Prices.test_total", ("test_total",), "fails without the change: test_total"),
        ("tests.test_prices.Prices.test_total", ("test_total",), "fails without the change: test_total"),
        ("tests.other.Prices.test_total", ("test_total",), ""),
    ],
)
def test_the_outcome_of_a_test_is_told_of_the_hunk_that_changes_it(test, touched, detail):
    change = replace(CHANGE, path="tests/test_prices.py", hunks=(HUNK, replace(HUNK, id="i", new_start=40)))
    own = evidence(path=change.path, kind="test", touched=touched)
    assert judge_hunk(change, HUNK, own, replace(CHECK, red_new=(test,))).detail == detail


def test_late_evidence_replaces_that_of_the_same_hunk_and_an_edit_makes_it_stale():
    proof = prove(evidence())
    assert proof.judge(CHANGE, HUNK).word == "unknown"
    proof.apply_evidence(EvidenceRecorded(hunks=(evidence(needed="checked", by_tests=(LIMIT,)),)))
    assert proof.judge(CHANGE, HUNK).is_proven
    proof.apply_edit(CHANGE.path, FileState(blob="c"))
    judgement = proof.judge(CHANGE, HUNK)
    assert (judgement.word, judgement.is_stale, judgement.is_proven) == ("checked", True, False)
    assert proof.list_known() == {}


def test_the_end_of_a_proof_is_forgotten_when_the_next_one_begins():
    proof = prove(evidence())
    proof.apply_end(ProofFinished(stopped=True))
    assert proof.finished == ProofFinished(stopped=True)
    proof.apply_evidence(EvidenceRecorded(check=CHECK, text={CHANGE.path: CHANGE.pending}))
    assert proof.finished is None


def test_a_review_is_counted_in_words_and_what_is_left_out_has_its_reason():
    hunks = tuple(replace(HUNK, id=name) for name in "abcdef")
    gone = replace(CHANGE, path="old.py", operation="delete", hunks=(replace(HUNK, id="g"),))
    proof = prove(
        evidence(hunk="a", needed="checked", by_tests=(LIMIT,)),
        evidence(hunk="b", kind="docs"),
        evidence(hunk="c", kind="imports"),
        evidence(hunk="d", kind="generated"),
        evidence(hunk="e", executed="none"),
        evidence(hunk="g", path="old.py", needed="checked"),
    )
    summary = summarize_proof(proof, [replace(CHANGE, hunks=hunks), gone])
    assert summary.describe() == "1 to look at · 2 checked · 3 folded"
    assert (summary.proven, summary.proven_checked) == (3, 1)
    assert summary.kinds == ("1 documentation", "1 import", "1 generated")
    assert set(summary.left_out) == {"1 to read by yourself", "1 to look at", "1 not looked into", "1 deletion"}


def test_no_hunk_of_a_protected_file_is_accepted_unread():
    proof = prove(evidence(needed="checked", by_tests=(LIMIT,)))
    assert summarize_proof(proof, [CHANGE]).proven == 1
    for fields in ({"protected": True}, {"conflict": "it clashes"}, {"broken": "line 1"}):
        summary = summarize_proof(proof, [replace(CHANGE, **fields)])
        assert (summary.proven, summary.left_out) == (0, ("1 in a file that needs its own verdict",))


def test_same_edits_are_counted_by_their_substitution():
    judged = [
        judge_hunk(CHANGE, HUNK, evidence(kind="uniform", substitution="get_price → price_of"), CHECK) for _ in range(9)
    ]
    judged += [judge_hunk(CHANGE, HUNK, evidence(kind="imports"), CHECK)] * 2
    noticed = Mutant(line=10, old="1", new="2", is_noticed=True)
    judged += [judge_hunk(CHANGE, HUNK, evidence(needed="same", executed="all", mutants=(noticed,)), CHECK)]
    assert count_kinds(judged) == ("9 × get_price → price_of", "2 imports", "1 behaves as before")


def test_everything_before_what_was_not_looked_into_is_to_look_at():
    assert {*ORDER} - LOOK_AT == {"unknown", "test", "checked", "folded"}


@pytest.mark.parametrize(
    ("numbers", "text"), [((), ""), ((4,), "4"), ((4, 5, 6, 9), "4-6, 9"), ((1, 3, 5, 7, 9), "1, 3, 5, …")]
)
def test_lines_are_named_by_ranges(numbers, text):
    assert format_lines(numbers) == text


def test_the_run_of_a_check_is_described_in_a_few_words():
    assert describe_check_run(CHECK) == "412 tests passed, 4.1 s, canary noticed"
    assert describe_check_run(replace(CHECK, failing=(TOTAL,), canary="not_run")) == "1 of 412 tests failed, 4.1 s"
    assert describe_check_run(CheckEvidence(command="")) == ""


def test_a_page_about_a_hunk_has_all_that_is_known_of_it():
    hunk = evidence(
        needed="checked",
        executed="part",
        tests=3,
        by_tests=(LIMIT, TOTAL),
        message="90 != 95",
        not_run=(12,),
        mutants=(GAP, replace(GAP, is_noticed=True, by_test=TOTAL)),
        group=("h", "i"),
    )
    rows = explain_hunk(hunk)
    assert ("tests", f"{LIMIT}\n{TOTAL}") in rows
    assert ("never ran", "line 12") in rows
    assert ("line 11", ">= → > unnoticed") in rows
    assert ("line 11", ">= → > noticed by test_total") in rows
    assert ("taken out", "together with 1 other hunk") in rows
    check = replace(CHECK, red_new=(LIMIT,), green_new=(TOTAL,), runs=31, run_seconds=19.2, broken_old=(TOTAL,))
    receipt = explain_check(check, [hunk])
    assert ("new tests", "1 of 2 fail without the change") in receipt
    assert ("old tests", "fail over the new code: test_total") in receipt
    assert ("mutants", "1 of 2 noticed") in receipt
    assert ("evidence", "31 runs, 19 s") in receipt
    assert all(text for _, text in (*rows, *receipt))


def test_without_a_check_nothing_is_known():
    assert [judgement for _, _, judgement in iterate_judgements(ProofState(), [CHANGE])] == [None]
    assert replace_data(ProofState()).list_known() == {}


@pytest.mark.parametrize(("contract", "word"), [("", "folded"), ("price_of is gone", "unnoticed")])
def test_definitions_that_are_gone_are_folded_unless_their_name_was_public(contract, word):
    judgement = judge_hunk(CHANGE, HUNK, evidence(needed="removed", contract=contract), CHECK)
    assert (judgement.word, judgement.text, judgement.detail) == (word, "removed", "no test misses it")
    assert not judgement.is_proven


@pytest.mark.parametrize(("needed", "is_proven"), [("unknown", True), ("unnoticed", False)])
def test_annotations_that_only_no_test_notices_are_folded_and_not_accepted_unread(needed, is_proven):
    judgement = judge_hunk(CHANGE, HUNK, evidence(kind="types", needed=needed), CHECK)
    assert (judgement.word, judgement.is_proven) == ("folded", is_proven)
