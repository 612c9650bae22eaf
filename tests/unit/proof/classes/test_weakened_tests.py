"""Tests that check less than before."""

from __future__ import annotations

import pytest

from core.proof.classes.weakened_tests import find_touched, find_weakened_tests
from core.protocol.review import Hunk

TWO = "def test_a():\n    assert f() == 1\n    assert g() == 2\n"


def found(path: str, base: str, pending: str) -> list[str]:
    return [test.describe() for test in find_weakened_tests({path: (base, pending)})]


@pytest.mark.parametrize(
    ("pending", "wanted"),
    [
        ("", ["test_a was deleted"]),
        ("def test_b():\n    assert other()\n", ["test_a was deleted"]),
        ("def test_renamed():\n    assert f() == 1\n    assert g() == 2\n", []),
        ("def test_a():\n    assert f() == 1\n", ["test_a: 2 assertions became 1"]),
        ("def test_a():\n    assert f() == 1\n    # assert g() == 2\n", ["test_a: 2 assertions became 1"]),
        ("def test_a():\n    assert f() == 1\n    assert g() == 3\n", ["test_a expects something else"]),
        (f"@pytest.mark.skip\n{TWO}", ["test_a is skipped"]),
        (f"@unittest.skipIf(True, 'no')\n{TWO}", ["test_a is skipped"]),
        (TWO.replace("():\n", "():\n    pytest.skip()\n"), ["test_a is skipped"]),
        (f"{TWO}    assert h()\n", []),
        (f"# A note.\n{TWO}", []),
    ],
)
def test_what_a_change_takes_from_a_test_of_python(pending, wanted):
    assert found("tests/test_a.py", TWO, pending) == wanted


JS = "describe('a', () => {\n  it('adds', () => {\n    expect(f(1)).toBe(2);\n    expect(f(2)).toBe(3);\n  });\n});\n"


@pytest.mark.parametrize(
    ("pending", "wanted"),
    [
        (JS.replace("    expect(f(2)).toBe(3);\n", ""), ["adds: 2 assertions became 1"]),
        (JS.replace("toBe(3)", "toBe(4)"), ["adds expects something else"]),
        (JS.replace("it(", "it.skip("), ["adds is skipped"]),
        ("describe('a', () => {});\n", ["adds was deleted"]),
        (JS.replace("'adds'", "'sums'"), []),
    ],
)
def test_what_a_change_takes_from_a_test_of_javascript(pending, wanted):
    assert found("src/a.test.ts", JS, pending) == wanted


def test_a_test_that_moved_to_another_file_is_not_weakened():
    assert find_weakened_tests({"tests/test_a.py": (TWO, ""), "tests/test_b.py": ("", TWO)}) == []


@pytest.mark.parametrize(
    ("path", "base", "pending", "wanted"),
    [
        (
            "a_test.go",
            'package a\n\nfunc TestA(t *testing.T) {\n\tif f() != 1 {\n\t\tt.Errorf("x")\n\t}\n}\n',
            "package a\n\nfunc TestA(t *testing.T) {\n\tf()\n}\n",
            ["TestA: 1 assertions became 0"],
        ),
        (
            "tests/a.rs",
            "#[test]\nfn test_a() {\n    assert_eq!(f(), 1);\n}\n",
            "#[test]\n#[ignore]\nfn test_a() {\n    assert_eq!(f(), 1);\n}\n",
            ["test_a is skipped"],
        ),
    ],
)
def test_what_a_change_takes_from_a_test_of_another_language(path, base, pending, wanted):
    assert found(path, base, pending) == wanted


def test_a_hunk_touches_the_tests_that_it_is_in():
    text = "def test_one():\n    assert 1\n\n\ndef test_two():\n    assert 2\n"
    hunks = (
        Hunk(id="a", old_start=2, old_lines=1, new_start=2, new_lines=1),
        Hunk(id="b", old_start=5, old_lines=0, new_start=5, new_lines=2),
        Hunk(id="c", old_start=3, old_lines=1, new_start=3, new_lines=0),
    )
    names = find_touched("tests/test_a.py", text, hunks)
    assert names == {"a": {"test_one"}, "b": {"test_two"}, "c": frozenset()}
