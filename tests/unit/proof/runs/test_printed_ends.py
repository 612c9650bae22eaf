"""Ends of tests as runners print them: the outputs are real ones, shortened."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.proof.runs.printed_ends import read_printed_ends

ROOT = Path("/work/shop")
NODE = """\
TAP version 13
# Subtest: adds
not ok 1 - adds
  ---
  duration_ms: 24.413256
  location: '/work/shop/test/price.test.js:2:1'
  failureType: 'testCodeFailure'
  error: |-
    Expected values to be strictly equal:

    2 !== 3

  code: 'ERR_ASSERTION'
  name: 'AssertionError'
  stack: |-
    TestContext.<anonymous> (/work/shop/test/price.test.js:2:29)
    Test.run (node:internal/test_runner/test:796:25)
  ...
# Subtest: crash
not ok 2 - crash
  ---
  location: '/work/shop/test/price.test.js:3:1'
  failureType: 'testCodeFailure'
  error: 'nope is not defined'
  code: 'ERR_TEST_FAILURE'
  name: 'ReferenceError'
  stack: |-
    exports.g (/work/shop/price.js:2:19)
    TestContext.<anonymous> (/work/shop/test/price.test.js:3:25)
  ...
# Subtest: inner
    # Subtest: deep
    not ok 1 - deep
      ---
      location: '/work/shop/test/price.test.js:5:38'
      error: 'my words'
      code: 'ERR_ASSERTION'
      ...
    1..1
not ok 3 - inner
  ---
  location: '/work/shop/test/price.test.js:5:1'
  failureType: 'subtestsFailed'
  code: 'ERR_TEST_FAILURE'
  ...
# Subtest: skipped
ok 4 - skipped # SKIP
  ---
  location: '/work/shop/test/price.test.js:6:1'
  ...
ok 5 - fine
  ---
  location: '/work/shop/test/price.test.js:7:1'
  ...
# tests 6
# pass 1
"""
FILE_OF_NODE = """\
# ReferenceError: nope is not defined
#     at Object.<anonymous> (/work/shop/lib/price.js:3:14)
#     at Module._compile (node:internal/modules/cjs/loader:1521:14)
# Subtest: /work/shop/test/price.test.js
not ok 1 - /work/shop/test/price.test.js
  ---
  location: '/work/shop/test/price.test.js:1:1'
  failureType: 'testCodeFailure'
  exitCode: 1
  error: 'test failed'
  code: 'ERR_TEST_FAILURE'
  ...
"""
TAPE = """\
TAP version 13
# total of nothing
ok 1 should be equal
# total of two
not ok 2 should be equal
  ---
    operator: equal
    expected: 3
    actual:   2
    at: Test.<anonymous> (/work/shop/test/price.js:9:5)
  ...

1..2
# tests 2
# pass  1
# fail  1
"""


def read(output: str) -> list[tuple[str, str, str, str]]:
    return [(end.test, end.outcome, end.kind, end.message) for end in read_printed_ends(output, ROOT, is_red=True)]


def test_node():
    path = "test/price.test.js"
    assert read(NODE) == [
        (f"{path}::adds", "failed", "AssertionError", "Expected values to be strictly equal:"),
        (f"{path}::crash", "failed", "ReferenceError", "nope is not defined"),
        (f"{path}::deep", "failed", "AssertionError", "my words"),
        (f"{path}::skipped", "skipped", "", ""),
        (f"{path}::fine", "passed", "", ""),
    ]
    assert read_printed_ends(NODE, ROOT, is_red=True)[1].places == (("price.js", 2),)


def test_a_file_that_failed_as_a_whole_has_failed_by_what_was_printed_before():
    (end,) = read_printed_ends(FILE_OF_NODE, ROOT, is_red=True)
    assert (end.test, end.kind, end.message) == ("test/price.test.js", "ReferenceError", "nope is not defined")
    assert end.places == (("lib/price.js", 3),)


def test_tape():
    assert read(TAPE) == [
        ("total of nothing", "passed", "", ""),
        ("test/price.js::total of two", "failed", "AssertionError", ""),
    ]


@pytest.mark.parametrize(
    ("output", "wanted"),
    [
        ("  ● cart › adds\n\n    expect(received).toBe(expected)\n", [("cart › adds", "AssertionError")]),
        ("  ● cart › adds\n\nTypeError: f is not a function\n", [("cart › adds", "TypeError")]),
        (
            " FAIL  src/a.test.ts > adds\nAssertionError: expected 2 to be 3\n",
            [("src/a.test.ts > adds", "AssertionError")],
        ),
        ("--- FAIL: TestTotal (0.00s)\n    a_test.go:9: 2 != 3\n", [("TestTotal", "AssertionError")]),
        ("test tests::total ... FAILED\nassertion `left == right` failed\n", [("tests::total", "AssertionError")]),
        ("test tests::total ... ok\n", []),
        (
            "ok 1 a\nReferenceError: x is not defined\n    at f (/work/shop/a.js:1:2)\n",
            [("a", ""), ("a.js", "ReferenceError")],
        ),
        ("", []),
    ],
)
def test_other_runners(output, wanted):
    ends = [(test, kind) for test, _, kind, _ in read(output)]
    assert ends == wanted


def test_what_a_passing_run_prints_of_errors_is_no_failure():
    assert read_printed_ends("ok 1 a\nTypeError: expected here\n", ROOT, is_red=False)[0].outcome == "passed"
    assert read_printed_ends("TypeError: expected here\n--- FAIL: TestA\n", ROOT, is_red=False) == ()


@pytest.mark.parametrize(
    ("output", "test", "message"),
    [
        ("--- FAIL: TestTotal (0.00s)\n    a_test.go:9: got 2, want 3\n", "TestTotal", "got 2, want 3"),
        (
            "There was 1 failure:\n\n1) App\\CartTest::testTotal\nFailed asserting that 2 matches expected 3.\n",
            "App\\CartTest::testTotal",
            "Failed asserting that 2 matches expected 3.",
        ),
        (
            "[ERROR]   CartTest.total:12 expected: <3> but was: <2>\norg.opentest4j.AssertionFailedError: x\n",
            "CartTest.total:12",
            "expected: <3> but was: <2>",
        ),
        ("CartTest > total() FAILED\n    org.opentest4j.AssertionFailedError: x\n", "CartTest > total()", "x"),
        ("  Failed Shop.CartTest.Total [4 ms]\n", "Shop.CartTest.Total", ""),
        ("FAILED tests/test_a.py::test_a[1] - assert 1 == 2\n", "tests/test_a.py::test_a[1]", ""),
        ("FAIL: test_a (cart.Total)\nAssertionError: 1 != 2\n", "test_a (cart.Total)", "1 != 2"),
        ("  1) cart\n       adds:\n     AssertionError: 1 != 2\n", "cart adds", "1 != 2"),
        ("The following tests FAILED:\n\t  3 - total (Failed)\n", "total", ""),
        ("Test Case '-[Shop.CartTests testTotal]' failed (0.1 seconds).\n", "-[Shop.CartTests testTotal]", ""),
        ("adds ... FAILED (3ms)\nerror: AssertionError: 1 != 2\n", "adds", ""),
        ("rspec ./spec/cart_spec.rb:4 # Cart adds\n", "./spec/cart_spec.rb:4", ""),
        ("  ● cart › adds\n    expect(received).toBe(expected)\n    Expected: 3\n", "cart › adds", "Expected: 3"),
    ],
)
def test_what_other_runners_say_of_a_failure(output, test, message):
    (end,) = read_printed_ends(output, ROOT, is_red=True)
    assert (end.test, end.message) == (test, message)
