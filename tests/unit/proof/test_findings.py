"""Evidence as it grows: what is told at once, what still holds, and what an edit outdates."""

from __future__ import annotations

import pytest

from core.proof.findings import Findings, describe_unrun, find_outdated, list_recorded
from core.proof.hunk_classes import ChangedText
from core.proof.runs.records import RunRecord
from core.protocol.evidence import CheckEvidence, HunkEvidence
from core.protocol.review import Change, FileState
from core.shadow.diff.hunks import compute_hunks

TEST = "def test_a():\n    assert f() == 1\n"


def changed(path: str, old: str, new: str) -> ChangedText:
    hunks = compute_hunks(old.encode(), new.encode())
    change = Change(path=path, operation="edit", base=FileState(), pending=FileState(), hunks=hunks)
    return ChangedText(change, old.encode(), new.encode())


TEXTS = [
    changed("shop/a.py", "x = 1\n", "x = 2\n"),
    changed("shop/b.py", "y = 1\n", "y = 2\n"),
    changed("tests/test_a.py", TEST, TEST.replace("assert ", "")),
    changed("README.md", "a\n", "b\n"),
    changed("data.yaml", "a\n", "b\n"),
    changed("pyproject.toml", "a = 1\n", "a = 2\n"),
]
PLACE = ("shop/a.py", TEXTS[0].change.hunks[0].id)


class Report:
    def __init__(self) -> None:
        self.told: list[HunkEvidence | CheckEvidence] = []

    def report_hunk(self, evidence: HunkEvidence) -> None:
        self.told.append(evidence)

    def report_check(self, evidence: CheckEvidence) -> None:
        self.told.append(evidence)


def test_classes_weakened_tests_and_steering_are_known_without_a_run():
    check, hunks = describe_unrun(TEXTS)
    assert [hunk.kind for hunk in hunks] == ["code", "code", "test", "docs", "data", "steering"]
    assert check.steering == ("pyproject.toml",)
    assert check.weakened == (("tests/test_a.py:2", "test_a: 1 assertions became 0"),)
    assert list_recorded(TEXTS) == ["shop/a.py", "shop/b.py", "tests/test_a.py"]


def test_only_what_is_new_is_reported():
    report = Report()
    findings = Findings(TEXTS, "pytest", report)
    findings.report_all()
    count = len(report.told)
    findings.update(PLACE, needed="checked")
    findings.update(PLACE, needed="checked")
    findings.update_check(tests=3)
    findings.update_check(tests=3)
    assert count == len(TEXTS) + 1
    assert report.told[count:] == [findings.evidence[PLACE], findings.check]


@pytest.mark.parametrize(
    ("fields", "holds"),
    [
        ({"needed": "checked"}, True),
        ({"needed": "unknown"}, False),
        ({"needed": "checked", "is_stale": True}, False),
        ({"needed": "checked", "kind": "docs"}, False),
    ],
)
def test_an_earlier_verdict_holds_unless_it_is_stale_unknown_or_of_something_else(fields, holds):
    known = HunkEvidence(**{"path": PLACE[0], "hunk": PLACE[1], "kind": "code", "by_tests": ("t",)} | fields)
    findings = Findings(TEXTS, "pytest", known={PLACE: known})
    assert (PLACE in findings.known) == holds
    assert (findings.evidence[PLACE].by_tests == ("t",)) == holds


def test_a_verdict_depends_on_the_files_that_its_tests_execute_and_on_those_that_are_not_recorded():
    lines = {"tests/test_a.py::test_a": {"shop/a.py": frozenset({1})}, "tests/test_b.py": {"shop/b.py": frozenset({1})}}
    findings = Findings(TEXTS, "pytest")
    record = RunRecord(lines)
    unrecorded = ("data.yaml", "pyproject.toml")
    assert findings.find_dependencies(["tests/test_a.py::test_a"], record) == (
        "shop/a.py",
        "tests/test_a.py",
        *unrecorded,
    )
    assert findings.find_dependencies(["tests/test_b.py::named"], record) == ("shop/b.py", *unrecorded)
    assert findings.find_dependencies(["tests/test_c.py::test_c"], record) == ()
    assert findings.find_dependencies([], record) == ()


@pytest.mark.parametrize(
    ("edited", "outdated"),
    [
        (["a.py"], ["first", "all"]),
        (["b.py"], ["all"]),
        (["README.md"], []),
        (["docs/guide.rst"], []),
        (["README.md", "a.py"], ["first", "all"]),
        (["new.py"], ["first", "second", "all"]),
        ([], []),
    ],
)
def test_an_edit_outdates_what_depends_on_it_and_one_elsewhere_everything(edited, outdated):
    evidence = [
        HunkEvidence(path="a.py", hunk=hunk, kind="code", depends_on=depends_on)
        for hunk, depends_on in (("first", ("a.py",)), ("second", ("c.py",)), ("all", ()))
    ]
    assert [one.hunk for one in find_outdated(evidence, ["a.py", "b.py", "c.py"], edited)] == outdated
