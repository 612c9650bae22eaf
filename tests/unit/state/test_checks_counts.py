from __future__ import annotations

import pytest

from core.state.checks import CountedTests, find_run_counts, find_test_counts


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ("....\n==== 12 passed in 3.10s ====\n", "12 passed"),
        ("F...\n2 failed, 10 passed, 1 skipped, 3 warnings in 0.31s\n", "2 failed, 10 passed"),
        (
            "\x1b[31m===== \x1b[1m1 failed\x1b[0m, 3 passed, 1 error in 61.20s (0:01:01) =====\x1b[0m\n",
            "2 failed, 3 passed",
        ),
        ("12 passed in 1s\n\n=== 3 passed in 0.01s ===\n", "3 passed"),
        ("1 skipped in 0.01s\n", "1 skipped"),
        ("..F\n-----\nRan 3 tests in 0.001s\n\nFAILED (failures=1, errors=1)\n", "2 failed, 1 passed"),
        ("Ran 1 test in 0.001s\n\nOK\n", "1 passed"),
        ("Tests:       1 failed, 12 passed, 13 total\nTime:        1 s\n", "1 failed, 12 passed"),
        ("      Tests  1 failed | 3 passed (4)\n", "1 failed, 3 passed"),
        (
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured\n\n"
            "test result: FAILED. 4 passed; 1 failed; 2 ignored; 0 measured\n",
            "1 failed, 7 passed",
        ),
        ("  12 passing (8ms)\n  1 failing\n", "1 failed, 12 passed"),
        ("# tests 3\n# pass 2\n# fail 1\n", "1 failed, 2 passed"),
        ("90% tests passed, 1 tests failed out of 10\n", "1 failed, 9 passed"),
    ],
)
def test_the_counts_of_a_test_runner_are_found(output, told):
    test_counts = find_test_counts(output)
    assert test_counts is not None
    assert test_counts.format() == told


@pytest.mark.parametrize("end", ["OK", "NO TESTS RAN", "NO TESTS RAN (skipped=1)"])  # before Python 3.12 and since
def test_a_run_of_unittest_without_a_test_counts_none_that_passed(end):
    counts = find_test_counts(f"\n----------\nRan {end.count('1')} tests in 0.000s\n\n{end}\n")
    assert counts is not None
    assert (counts.passed, counts.failed) == (0, 0)


@pytest.mark.parametrize(
    "output", ["", "hello", "3 files changed\n", "12 apples in 3 s", "passed\n", "it passed 3 times"]
)
def test_what_is_no_summary_of_tests_is_taken_for_none(output):
    assert find_test_counts(output) is None


def test_a_summary_is_looked_for_at_the_end_of_a_long_output_alone():
    assert find_test_counts("12 passed in 1s\n" + "x\n" * 10_000) is None
    assert find_test_counts("x\n" * 100_000 + "12 passed in 1s\n") == CountedTests(passed=12)


def test_n26_counts_that_the_end_of_a_run_belies_are_none():
    assert find_run_counts("1 failed, 1 passed in 1s\n", 1) == CountedTests(passed=1, failed=1)
    assert find_run_counts("12 passed in 1s\n", 0) == CountedTests(passed=12)
    assert find_run_counts("999 passed in 1s\n", 1) is None
