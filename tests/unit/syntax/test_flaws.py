"""Flaws of Python that parses: the compiler's word counts, and nothing of the text runs or warns."""

from __future__ import annotations

import warnings

import pytest

from core.syntax.flaws import describe_first_flaw, find_flaws, find_new_flaws

GOOD = "def f():\n    return 1\n"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (f"{GOOD}return 1\n", 3, "'return' outside function"),
        ("break\n", 1, "'break' outside loop"),
        ("def f(a, a):\n    pass\n", 1, "duplicate argument 'a' in function definition"),
        ("x = 1\n  y = 2\n", 2, "unexpected indent"),
    ],
)
def test_what_the_compiler_refuses_is_a_flaw(text, line, message):
    (flaw,) = find_flaws("a.py", text)
    assert (flaw.line, flaw.message) == (line, message)
    assert describe_first_flaw("a.py", GOOD, text) == f"line {line}: {message}"


def test_a_flaw_that_was_there_before_is_not_new():
    before = f"{GOOD}return 1\n"
    assert find_new_flaws("a.py", before, f"# moved\n{before}") == ()
    assert [flaw.line for flaw in find_new_flaws("a.py", GOOD, before)] == [3]


@pytest.mark.parametrize(
    "text",
    [
        "type X = int\nprint(f'{x['a']}')\n",  # newer than the Python that may run us
        "x = '\\d'\nassert (1, 2)\n0 is 0\n",  # warnings are none of ours
        "x = " + "(" * 3000 + ")" * 3000 + "\n",
        "raise SystemExit(open('made-by-the-check', 'w'))\n",
    ],
)
def test_newer_syntax_warnings_and_depth_are_no_flaws_and_nothing_runs(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert find_flaws("a.py", text) == ()
    assert (seen, list(tmp_path.iterdir())) == ([], [])


def test_other_languages_are_not_compiled():
    assert find_flaws("a.js", "function f() { return 1 }\n") == ()
    assert find_flaws("a.txt", "return 1\n") is None
