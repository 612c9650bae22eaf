"""The project's own linters through the loop, in a real box: what is new, and when they are not run."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from core.config.settings import CommandSettings, PermissionSettings, Settings
from core.protocol import events as ev
from tests.support.agent_case import Case, Step, calls, says
from tests.support.boxes import AUTO, boxed
from tests.support.own_programs import link_program

BROKEN = "import os\nimport sys\nprint(sys.argv, undefined)\n"
WRITE = calls(("write", {"file_path": "b.py", "contents": BROKEN}))
EDIT = calls(("search_replace", {"file_path": "a.py", "old_string": "x = 1", "new_string": "import re\nx = 1"}))


def read_lints(*paths: str) -> Step:
    return calls(("read_lints", {"paths": list(paths)} if paths else {}))


def with_ruff(case: Case) -> None:
    """The project's own ruff, and a file that it complains of already."""
    link_program("ruff", case.project / ".venv" / "bin")
    (case.project / ".gitignore").write_text(".venv\n")
    (case.project / "ruff.toml").write_text('[lint]\nselect = ["F"]\n')
    (case.project / "a.py").write_text("import os\nx = 1\n")


async def test_only_what_the_edits_brought_is_told(tmp_path):
    steps = [
        WRITE,
        EDIT,
        read_lints(),
        read_lints("a.py"),
        read_lints("ruff.toml"),
        read_lints("nowhere.py"),
        says("."),
    ]
    async with boxed(tmp_path, *steps) as case:
        with_ruff(case)
        before = case.tree()
        await case.turn()
        everything, one, none, nowhere = case.results()[2:]
        assert everything.splitlines() == [
            "ruff: 3 new problems (1 older, not shown)",
            "  a.py:2:8: F401 [*] `re` imported but unused",
            "  b.py:1:8: F401 [*] `os` imported but unused",
            "  b.py:3:17: F821 Undefined name `undefined`",
        ]
        assert one.startswith("ruff: 1 new problem (1 older, not shown)\n  a.py:2:8")
        assert none.startswith("No linter of this project covers ruff.toml")
        assert "nowhere.py does not exist" in nowhere
        assert case.tree() == before
        assert case.of(ev.ApprovalRequested) == []


@pytest.mark.parametrize("mode", ["ask", "plan"])
async def test_they_run_in_every_mode_and_nothing_stays(tmp_path, mode):
    async with boxed(tmp_path, WRITE, says("."), read_lints(), says(".")) as case:
        with_ruff(case)
        await case.turn()
        before, changes = case.tree(), dict(case.state.changes)
        case.emit(ev.ModeChanged(mode=mode))
        await case.turn()
        assert case.results()[-1].startswith("ruff: 2 new problems\n")
        assert (case.tree(), case.state.changes) == (before, changes)


@pytest.mark.parametrize(
    ("settings", "trusted", "why"),
    [
        (Settings(commands=CommandSettings(policy="human")), True, "The user runs the commands here"),
        (replace(AUTO, permissions=PermissionSettings(deny=("Shell(ruff *)",))), True, "The rule"),
        (replace(AUTO, permissions=PermissionSettings(ask=("Shell(ruff *)",))), True, "The rule"),
        (AUTO, False, "trusted this project"),
    ],
    ids=["by hand", "denied", "asked", "untrusted"],
)
async def test_they_are_not_run_unasked_where_the_user_wants_it_otherwise(tmp_path, settings, trusted, why):
    async with boxed(tmp_path, WRITE, read_lints(), says("."), settings=settings) as case:
        with_ruff(case)
        case.session.permissions.is_trusted = trusted
        await case.turn()
        assert case.results()[-1].startswith("ruff was not run: ")
        assert why in case.results()[-1]


async def test_without_a_box_they_are_not_run_and_the_answer_says_what_to_do(tmp_path):
    case = Case(tmp_path, WRITE, read_lints(), says("."))
    with_ruff(case)
    await case.turn()
    assert "commands can't be sandboxed on this machine, so none runs without asking" in case.results()[-1]
    assert "run_terminal_cmd" in case.results()[-1]


async def test_one_that_is_configured_but_missing_or_broken_says_so(tmp_path):
    steps = [calls(("write", {"file_path": "web/a.ts", "contents": "let a = 1\n"})), EDIT, read_lints(), says(".")]
    async with boxed(tmp_path, *steps) as case:
        with_ruff(case)
        (case.project / "web" / "node_modules" / ".bin").mkdir(parents=True)
        tsc = case.project / "web" / "node_modules" / ".bin" / "tsc"
        tsc.write_text("#!/bin/sh\necho it is broken\nexit 3\n")
        tsc.chmod(0o755)
        (case.project / "web" / "tsconfig.json").write_text("{}")
        (case.project / "ruff.toml").write_text("no = 1 toml\n")
        await case.turn()
        report = case.results()[-1]
        assert "tsc in web failed with exit code 3\n  it is broken" in report
        assert "ruff failed with exit code 2" in report
