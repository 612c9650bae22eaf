from __future__ import annotations

import pytest

from core.sandbox.results import CommandResult
from core.shell.verification.clean_run import judge_run


def ended(code: int | None, output: str = "", how: str = "exited") -> CommandResult:
    return CommandResult(exit_code=code, output=output, duration_ms=1, ended=how)


@pytest.mark.parametrize(
    ("command", "kind", "output"),
    [
        ("pytest -q", "tests", "== 3 passed in 0.1s =="),
        ("python -m unittest", "tests", "Ran 2 tests in 0.001s\n\nOK\n"),
        ("go test ./...", "tests", "ok  \texample/shop\t0.01s\n"),
        ("ruff check .", "lint", "All checks passed!\n"),
        ("make check", "check", ""),
    ],
)
def test_n27_a_run_that_ended_with_0_and_failed_nothing_has_passed(command, kind, output):
    assert judge_run(command, kind, ended(0, output)).outcome == "passed"


@pytest.mark.parametrize(
    ("command", "kind", "output", "word"),
    [
        ("pytest -q", "tests", "== 3 failed, 1 passed in 0.1s ==", "counted 3 failed"),
        ("make check", "check", "== 1 failed in 0.1s ==", "counted 1 failed"),
        ("pytest -q", "tests", "no tests ran in 0.01s", "zero tests"),
        ("pytest -q", "tests", "", "zero tests"),
        ("pytest -q", "tests", "== 2 skipped in 0.1s ==", "zero tests"),
        ("python -m unittest", "tests", "Ran 0 tests in 0.000s\n\nOK\n", "zero tests"),
        ("go test ./...", "tests", "?   \texample/shop\t[no test files]\n", "zero tests"),
        ("npm test", "tests", "No tests found, exiting with code 0\n", "zero tests"),
    ],
)
def test_n27_an_exit_code_of_0_alone_proves_nothing(command, kind, output, word):
    judged = judge_run(command, kind, ended(0, output))
    assert judged.outcome != "passed"
    assert word in judged.problem


@pytest.mark.parametrize(
    ("result", "missing", "outcome", "words"),
    [
        (ended(1), (), "failed", "failed when run again, alone in a clean layer (exit code 1)"),
        (ended(1, "==== info ====\nFAILED a.py::test_a - x\n"), (), "failed", "(exit code 1). FAILED a.py::test_a - x"),
        (ended(1), ("node_modules",), "unclear", "could not be run clean: it exited with 1 without the ignored"),
        (ended(127), (), "unclear", "could not be run clean: a program it needs"),
        (
            ended(None, how="timed_out"),
            (),
            "unclear",
            "could not be run clean: it did not finish (timed out)",
        ),
    ],
)
def test_n27_what_did_not_pass_is_said_in_a_plain_sentence(result, missing, outcome, words):
    judged = judge_run("pytest  -q", "tests", result, missing)
    assert judged.outcome == outcome
    assert judged.problem.startswith("`pytest -q` ")
    assert words in judged.problem
