"""Commands of checks that are made smaller."""

from __future__ import annotations

import json

import pytest

from core.proof.runs.commands import follow_script, parse_command
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


@pytest.mark.parametrize(
    ("command", "script", "runner", "built"),
    [
        ("npm test", "jest --ci", "jest", "npm test -- --x"),
        ("npm t", "jest", "jest", "npm t -- --x"),
        ("npm run unit", "vitest run", "vitest", "npm run unit -- --x"),
        ("yarn test", "jest", "jest", "yarn test --x"),
        ("pnpm run unit", "npx vitest run", "vitest", "pnpm run unit --x"),
        ("npm test", "eslint . && jest", "other", ""),
        ("npm test", "vitest --watch", "other", ""),
        ("npm test --silent", "jest", "other", ""),
        ("make test", "jest", "other", ""),
    ],
)
def test_a_script_of_a_package_is_followed_to_its_runner(command, script, runner, built):
    package = json.dumps({"name": "shop", "scripts": {"test": script, "unit": script}}).encode()
    check = follow_script(parse_command(command), package)
    assert check.runner == runner
    if built:
        assert check.build(report="--x") == built


@pytest.mark.parametrize("package", [b"", b"{", b'{"scripts": []}', b'{"scripts": {}}'])
def test_a_package_that_tells_nothing_leaves_the_command(package):
    check = parse_command("npm test")
    assert follow_script(check, package) == check
