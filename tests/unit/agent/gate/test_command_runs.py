"""Commands that can run at the same time: those that only look, and checks; never one that another may wait for."""

from __future__ import annotations

import pytest

from core.agent.gate.command_runs import is_independent


@pytest.mark.parametrize(
    "command",
    [
        "ls -la src",
        "rg -n foo | head -20",
        "cat a.py && wc -l a.py",
        "git log --oneline -5",
        "git diff --stat",
        "find . -name '*.py' -newer a",
        "pytest -q tests/unit",
        "ruff check . && mypy",
        "cargo test",
        "git status 2>/dev/null",
        "sort a.txt | uniq -c",
    ],
)
def test_what_looks_or_checks_depends_on_nothing(command):
    assert is_independent(command)


@pytest.mark.parametrize(
    "command",
    [
        "mkdir -p out",
        "cd src && ls",
        "export A=1",
        "ls > files.txt",
        "git commit -m x",
        "git diff --output=x.patch",
        "find . -name '*.pyc' -delete",
        "find . -exec touch {} +",
        "sort -o a.txt a.txt",
        "npm install",
        "cat $(make-list)",
        "pytest; rm -rf build",
        "for f in *; do cat $f; done",
        "sed -i s/a/b/ x",
        "python3 build.py",
        "",
        "ls '",
        "git",
        "git -c alias.log=!make log",
    ],
)
def test_what_may_make_something_waits_for_its_turn(command):
    assert not is_independent(command)


def test_the_users_own_checks_are_checks():
    assert not is_independent("./verify all")
    assert is_independent("./verify all", ("./verify",))
