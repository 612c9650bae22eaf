"""The lines of a failed check that are worth a row."""

from __future__ import annotations

import pytest

from core.state.failure_excerpts import fit_failure_line, list_failure_lines
from core.text.display_names import cut_middle

PYTEST = """\
.F
=================================== FAILURES ===================================
__________________________________ test_total __________________________________

    def test_total():
>       assert total([1, 2]) == 4
E       assert 3 == 4

tests/test_prices.py:4: AssertionError
----------------------------- Captured stdout call -----------------------------
noise
=========================== short test summary info ============================
FAILED tests/test_prices.py::test_total - assert 3 == 4
!!!!!!!!!!!!!!!!!!!!!!!!!! stopping after 1 failures !!!!!!!!!!!!!!!!!!!!!!!!!!!
========================= \x1b[31m1 failed\x1b[0m, 1 passed in 0.02s ==========================
"""
LINE = "FAILED tests/unit/shop/test_prices.py::TestTotal::test_half_up_of_many - AssertionError: assert 3 == 4"


@pytest.mark.parametrize(
    ("output", "lines"),
    [
        (PYTEST, ["FAILED tests/test_prices.py::test_total - assert 3 == 4"]),
        (
            "_____ test_total _____\n\n>   assert a\nE   assert 3\n\na.py:1: E\n1 failed in 1s\n",
            ["FAILED test_total", "E   assert 3"],
        ),
        ("E   assert 3\n\na.py:1: E\n=====\nFAILED a.py::test_a\n", ["E   assert 3", "FAILED a.py::test_a"]),
        ("ok 1 - a\nnot ok 2 - rounds half up\n# tests 2\n", ["not ok 2 - rounds half up"]),
        ("--- FAIL: TestTotal (0.00s)\n    a_test.go:9: 3\nFAIL\nexit status 1\n", ["--- FAIL: TestTotal (0.00s)"]),
        ("test shop::total ... FAILED\n\nfailures:\n", ["test shop::total ... FAILED"]),
        ("FAIL: test_total (shop.Prices)\n-----------\nTraceback\n======\n", ["FAIL: test_total (shop.Prices)"]),
        (
            "error: one\n\n=====\nerror: two\n----\nmake: *** [all] Error 1\n",
            ["error: one", "error: two", "make: *** [all] Error 1"],
        ),
        ("", []),
    ],
)
def test_an_excerpt_names_the_failing_tests_and_draws_no_rules(output, lines):
    assert list(list_failure_lines(output)) == lines


def test_of_many_failing_tests_the_rest_is_counted():
    output = "".join(f"FAILED tests/test_a.py::test_{number}\n" for number in range(9))
    assert list_failure_lines(output, 3) == (
        "FAILED tests/test_a.py::test_0",
        "FAILED tests/test_a.py::test_1",
        "… 7 more",
    )


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (200, LINE),
        (90, "FAILED tests/unit/shop/test_prices.py::TestTotal::test_half_up_of_many - AssertionError:…"),
        (75, "FAILED tests/unit/shop/test_prices.py::TestTotal::test_half_up_of_many"),
        (60, "FAILED …/test_prices.py::TestTotal::test_half_up_of_many"),
        (20, "FAILED …/test_prices.py::TestTotal::test_half_up_of_many"),
    ],
)
def test_the_name_of_a_failing_test_is_never_cut(width, line):
    assert fit_failure_line(LINE, width) == line


def test_a_line_that_names_no_test_is_cut_at_its_end():
    assert fit_failure_line("a line of some words", 10) == "a line of…"


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (60, "python -m pytest -q tests/unit/test_prices.py"),
        (30, "python -m pytes…test_prices.py"),
        (12, "python…es.py"),
        (4, "py…y"),
        (1, "p"),
        (0, ""),
    ],
)
def test_a_command_keeps_its_first_word_and_its_end(width, text):
    command = "python -m pytest -q tests/unit/test_prices.py"
    assert cut_middle(command, width) == text
