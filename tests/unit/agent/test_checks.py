from __future__ import annotations

import pytest

from core.agent.checks import check_status


@pytest.mark.parametrize(
    "command",
    [
        "pytest -q", "cd x && pytest", "cd x\nmypy .", "pytest && echo ok", ".venv/bin/pytest tests",
        "python -m pytest",
        "FOO=1 timeout 60 uv run python3.11 -m pytest -x 2>&1", "npm test", "npm run test:unit -- --watch=false",
        "pnpm run typecheck", "yarn test", "cargo test --all", "go test ./...", "make", "make -j4", "make test",
        "make check",
        "ruff check .", "tsc --noEmit", "npx eslint src", "./gradlew test", "mvn -q test", "ctest --test-dir build",
        "python manage.py test", "poetry run tox", "env CI=1 nox", "bundle exec rspec",
    ],
)  # fmt: skip
def test_a_command_that_checks_is_known(command):
    assert check_status(command, 1) == 1
    assert check_status(command, 0) == 0


@pytest.mark.parametrize(
    "command",
    [
        "ls", "echo 'a && pytest'", "make install", "make clean", "pytest || true", "pytest; echo done", "pytest &",
        "pytest --version", "ruff check . | cat; true", "git commit -m pytest", "cat pytest", "npm install",
        "'unclosed",
        "if pytest; then true; fi", "pytest | tee log && echo fine", "cargo run", "python script.py",
        "pytest --collect-only",
    ],
)  # fmt: skip
def test_what_checks_nothing_or_hides_how_it_ended_is_no_check(command):
    assert check_status(command, 0, (0,)) is None


def test_a_check_at_the_head_of_the_last_pipeline_ends_as_the_pipeline_would():
    assert check_status("pytest -q 2>&1 | tail -3", 0, (1, 0)) == 1
    assert check_status("cd x && pytest | tail", 0, (0, 0)) == 0
    assert check_status("pytest | tail", 0) is None


def test_the_user_may_name_more():
    assert check_status("bin/verify --fast", 3, extra=("bin/verify",)) is None
    assert check_status("verify --fast", 3, extra=("verify",)) == 3
    assert check_status("nix flake check .", 0, extra=("nix flake check",)) == 0
