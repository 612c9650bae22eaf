from __future__ import annotations

import pytest

from core.shell.verification.single_check import parse_check


@pytest.mark.parametrize(
    "command",
    [
        "pytest -q", "python -m pytest -q tests/test_a.py -k price", ".venv/bin/pytest", "make check", "make -j4 test",
        "cargo test --all", "npm test", "go test ./...", "python -m unittest", "ruff check .", "uv run pytest -x",
        "pytest tests/test_a.py::test_b[1]",
    ],
)  # fmt: skip
def test_n27_one_check_alone_counts(command):
    assert parse_check(command) is not None


@pytest.mark.parametrize(
    "command",
    [
        "trap 'exit 0' EXIT; pytest", "true || pytest", "exit 0; pytest", "pytest() { true; }; pytest", "make -i check",
        "make -t check", "make -ki check", "make check SHELL=/bin/true", "pytest --co", "pytest --collect-only",
        "pytest --markers", "pytest --fixtures", "pytest /tmp/other", "pytest ../other", "PYTEST_ADDOPTS=--co pytest",
        "env PYTEST_ADDOPTS=--co pytest", "pytest && true", "pytest | cat", "pytest & wait", "pytest\ntrue", "(pytest)",
        "pytest -o addopts=--co", "pytest -oaddopts=--co", "pytest -p quiet", "pytest -c other.ini", "pytest `echo -x`",
        "pytest $OPTIONS", "jest --passWithNoTests", "npm test --if-present", "make --touch check", "cat ci.log",
        "echo '12 passed'", "pytest --rootdir=/tmp", "pytest '",
    ],
)  # fmt: skip
def test_n27_a_command_that_is_more_or_less_than_one_check_does_not(command):
    assert parse_check(command) is None


def test_n27_a_command_of_the_configuration_counts_as_it_is_written():
    assert parse_check("./verify --all && ./verify --docs", ("./verify --all && ./verify --docs",)) is not None
    assert parse_check("./verify; true", ("./verify",)) is None
