"""Subjects of commits: the check that `.ci/run` makes of new ones."""

from __future__ import annotations

import runpy

import pytest

from tests.contract.source_tree import ROOT

NAMESPACE = runpy.run_path(str(ROOT / "docs" / "dev" / "tools" / "commit_subjects.py"))
find_fault, list_faults = NAMESPACE["find_fault"], NAMESPACE["list_faults"]


@pytest.mark.parametrize(
    "subject",
    [
        "review: keep the cursor on a hunk that was accepted",
        "docs, tests: name the moved tests",
        "core/git: embed the reader of trees",
        "http: pass the token in a header",
    ],
)
def test_an_imperative_summary_is_right(subject):
    assert find_fault(subject) == ""


@pytest.mark.parametrize(
    ("subject", "fault"),
    [
        ("Fix the review", "is not `area: imperative summary`"),
        ("review: fixed the cursor", "does not begin with an imperative: `fixed`"),
        ("review: fixes the cursor", "does not begin with an imperative: `fixes`"),
        ("review: fixing the cursor", "does not begin with an imperative: `fixing`"),
        ("review: keep wip", "is a placeholder"),
        ("review: keep " + "x" * 70, "has 83 characters, 72 are allowed"),
    ],
)
def test_what_is_wrong_with_a_subject_is_said(subject, fault):
    assert find_fault(subject) == fault


def test_only_wrong_subjects_are_listed_with_their_commit():
    subjects = [("abc123", "review: keep the cursor"), ("def456", "more")]
    assert list_faults(subjects) == ["def456 `more` is not `area: imperative summary`"]
