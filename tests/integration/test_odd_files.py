"""A project whose files are named pipes or lie deep: nothing waits for them, and they are said or left out."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.engine.shared.project_files import _walk_files
from core.exits import ExitCode
from core.filesystem.removal import remove_tree
from core.shadow.content.paths import walk_directory
from core.tools.builtin.reading.ripgrep import has_unusual_rules
from core.workspace import IgnoreRules, Workspace
from core.workspace.withheld_paths import WithheldFinder, WithheldPaths
from tests.support.deep import deepen
from tests.support.program import ask, environment, run
from tests.support.provider_streams import Call, Step
from tests.support.trust import trust

DEPTH = 1_200  # more than Python calls into itself
PIPES = (
    ".gitignore",
    ".cursorignore",
    "AGENTS.md",
    "CLAUDE.md",
    ".cursorrules",
    ".cursor/rules/x.mdc",
    ".cursor/plans/x.plan.md",
    ".git/info/exclude",
    "sub/.gitignore",
    "sub/AGENTS.md",
    "sub/.cursor/rules/y.mdc",
)
CALLS = [
    Call(name="list_dir", arguments={"relative_workspace_path": "."}),
    Call(name="grep", arguments={"pattern": "two"}),
    Call(name="glob_file_search", arguments={"glob_pattern": "*.txt"}),
    Call(name="search_replace", arguments={"file_path": "a.txt", "old_string": "two", "new_string": "TWO"}),
    Call(name="run_terminal_cmd", arguments={"command": "cat a.txt", "is_background": False}),
]


@pytest.fixture
def project(tmp_path) -> Path:
    root = tmp_path / "project"
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    (root / "a.txt").write_text("one\ntwo\nthree\n")
    return root


def with_pipes(project: Path, *paths: str) -> Path:
    for path in paths:
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).unlink(missing_ok=True)
        os.mkfifo(project / path)
    return project


@pytest.mark.parametrize("trusted", [True, False], ids=["trusted", "untrusted"])
async def test_n15_named_pipes_in_the_place_of_files_that_are_read_keep_nobody_waiting(project, trusted):
    if trusted:
        trust(project)
    with_pipes(project, *PIPES)
    ended, requests = await ask(project, Step(calls=CALLS), "Done.", arguments=("--accept", "all"))
    assert (project / "a.txt").read_text() == "one\nTWO\nthree\n"
    assert "Done." in ended.out
    assert "[stopped after" not in str(requests)


async def test_n15_a_named_pipe_for_a_configuration_is_said(project):
    trust(project)
    with_pipes(project, ".agent-tui/config.toml")
    ended, _ = await ask(project, "Done.")
    assert ended.code in {ExitCode.USAGE, ExitCode.FAILED}
    assert "is not a regular file" in ended.err


async def test_n15_named_pipes_do_not_hold_up_the_commands_that_look_at_a_project(project):
    with_pipes(project, *PIPES)
    for words in (["doctor"], ["sessions"], ["review"], ["box", "run", "--", "cat", "a.txt"]):
        ended = await run(project, *words, env=environment(None))
        assert "Traceback" not in ended.err


@pytest.fixture
def deep(project) -> Iterator[Path]:
    """Directories, one in the other, and a file in the last."""
    deepen(project, DEPTH, "deep.txt")
    (project / ("d/" * DEPTH) / "deep.txt").write_text("two\n")
    yield project
    remove_tree(project / "d")


async def test_n15_directories_as_deep_as_a_path_can_be_are_looked_through(deep):
    trust(deep)
    ended, _ = await ask(deep, Step(calls=CALLS), "Done.", arguments=("--accept", "all"))
    assert (deep / "a.txt").read_text() == "one\nTWO\nthree\n"
    assert "recursion" not in ended.err.lower()
    for words in (["doctor"], ["review"]):
        result = await run(deep, *words, env=environment(None))
        assert "recursion" not in f"{result.out}{result.err}".lower()
        assert "Traceback" not in result.err


def test_n15_deep_directories_are_walked_without_recursion(deep):
    workspace = Workspace(deep)
    assert len(walk_directory(workspace, "d") or ()) == DEPTH + 1
    assert WithheldFinder(workspace, IgnoreRules(workspace)).find_paths() == WithheldPaths()
    assert any(path.endswith("deep.txt") for path in _walk_files(deep))
    assert has_unusual_rules(str(deep)) is False
