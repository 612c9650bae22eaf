"""Commands of checks that are made smaller."""

from __future__ import annotations

import pytest

from core.proof.runs.commands import parse_command
from core.proof.runs.records import RECORDER


@pytest.mark.parametrize(
    ("command", "runner", "small"),
    [
        ("pytest", "pytest", "pytest -x tests/test_a.py"),
        ("pytest -q tests", "pytest", "pytest -q -x tests/test_a.py"),
        ("python3 -m pytest -n 4 tests -k 'a or b'", "pytest", "python3 -m pytest -n 4 -k 'a or b' -x tests/test_a.py"),
        (".venv/bin/pytest --maxfail=2", "pytest", ".venv/bin/pytest --maxfail=2 -x tests/test_a.py"),
        ("uv run pytest tests", "pytest", "uv run pytest -x tests/test_a.py"),
        ("PYTHONPATH=src pytest", "pytest", f"PYTHONPATH={RECORDER}:src pytest -x tests/test_a.py"),
        ("python -m unittest discover -s a", "unittest", "python -m unittest --failfast discover -s a"),
        ("PYTHONPATH=. python -m unittest", "unittest", f"PYTHONPATH={RECORDER}:. python -m unittest --failfast"),
        ("node --test 'test/*.js'", "node", "node --test --test-reporter=tap tests/test_a.py"),
        ("node --import tsx --test a.ts", "node", "node --import tsx --test --test-reporter=tap tests/test_a.py"),
        ("node --test a.js | tee log", "other", "node --test a.js | tee log"),
        ("make test", "other", "make test"),
        ("cd web && pytest", "other", "cd web && pytest"),
        ("pytest 'unclosed", "other", "pytest 'unclosed"),
    ],
)
def test_a_command_for_some_files_until_the_first_failure(command, runner, small):
    check = parse_command(command)
    assert check.runner == runner
    assert check.build(["tests/test_a.py"], is_brief=True) == small


def test_without_files_a_command_runs_what_it_ran():
    assert parse_command("pytest -q tests/unit").build() == "pytest -q tests/unit"
    assert parse_command("pytest 'tests/test_*.py' 'a b.py'").build() == "pytest tests/test_*.py 'a b.py'"
    assert parse_command("node --test test/*.js").build() == "node --test --test-reporter=tap test/*.js"
