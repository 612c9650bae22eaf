"""Tests, documents and the like are told by their paths; what a question asks for is put behind less."""

from __future__ import annotations

import pytest

from core.index.path_kinds import list_kinds, list_wanted_kinds, weigh_path


@pytest.mark.parametrize(
    "path",
    [
        "src/shop/till.py",
        "lib/contest.rb",
        "docsearch/index.js",
        "src/testament.go",
        "pkg/latest/specific.rs",
        "core/build/src.py",
        "vendors/api.py",
        "src/Protest.java",
    ],
)
def test_code_of_the_project_is_of_no_kind(path):
    assert list_kinds(path) == ()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("tests/test_till.py", "tests"),
        ("src/till_test.go", "tests"),
        ("web/Till.spec.ts", "tests"),
        ("src/test/java/TillTest.java", "tests"),
        ("spec/till_spec.rb", "tests"),
        ("conftest.py", "tests"),
        ("examples/till.py", "examples"),
        ("docs/till.py", "documents"),
        ("README.md", "documents"),
        ("pylintrc", "data"),
        (".github/workflows/test.yml", "documents"),
        ("locale/de.po", "data"),
        ("vendor/github.com/x/y.go", "foreign"),
        ("js/jquery.min.js", "foreign"),
        ("typings/till.d.ts", "stubs"),
    ],
)
def test_a_kind_is_told_by_the_path(path, kind):
    assert kind in list_kinds(path)
    assert weigh_path(path, frozenset()) < weigh_path("src/till.py", frozenset())


def test_what_is_asked_for_is_put_behind_less():
    wanted_kinds = list_wanted_kinds("which test covers the till?")
    assert weigh_path("tests/test_till.py", wanted_kinds) > weigh_path("tests/test_till.py", frozenset())
    assert list_wanted_kinds("where is the latest till made?") == frozenset()
