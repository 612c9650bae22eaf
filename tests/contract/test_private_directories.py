"""What the program makes for itself is for its user alone, whatever the umask is (`mkdir` with parents is not)."""

from __future__ import annotations

import ast
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from core.filesystem.private_files import make_private_directory
from tests.contract.source_tree import ROOT

# Below a directory of ours that is private already, or of the user's project.
ELSEWHERE = {
    "core/hooks/runner.py",
    "core/background/control.py",
    "core/proof/runs/records.py",
    "core/shell/verification/clean_layer.py",
    "core/mcp/config_files.py",
    "core/shadow/gitstate/git_layer.py",
    "core/shadow/gitstate/git_state.py",
    "core/shadow/gitstate/repository_copy.py",
    "core/shell/patch_program.py",
    "core/shell/probe_overlay.py",
    "core/tools/builtin/reading/grep.py",
    "core/workspace/plan_folder.py",
}


def test_n40_only_places_below_private_ones_are_made_with_parents_by_the_umask():
    making = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "core").rglob("*.py")
        if "inside" not in path.parts
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and any(keyword.arg == "parents" for keyword in node.keywords)
    }
    assert making == ELSEWHERE


@pytest.mark.parametrize("umask", [0, 0o002, 0o022, 0o027, 0o077])
def test_n40_a_directory_and_those_above_it_are_private_under_any_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        make_private_directory(tmp_path / "a" / "b" / "c")
        make_private_directory(tmp_path / "a" / "b" / "c")
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert modes == {0o700}


def test_n40_a_file_in_the_place_of_a_directory_is_told(tmp_path):
    (tmp_path / "a").write_text("")
    with pytest.raises(NotADirectoryError):
        make_private_directory(tmp_path / "a")


@pytest.mark.parametrize("umask", [0, 0o077, 0o277, 0o777])
def test_n40_the_program_keeps_its_state_private_and_usable_under_any_umask(tmp_path, umask):
    (tmp_path / "project").mkdir()
    home = tmp_path / "home"
    environment = {**os.environ, "HOME": str(home), "AGENT_TUI_STATE_DIR": str(home / "state" / "ours")}
    for _ in range(2):  # the second run finds what the first has left
        done = subprocess.run(
            [sys.executable, str(ROOT / "agent_tui.py"), "box", "run", ".", "echo x > made"],
            cwd=tmp_path / "project",
            env=environment,
            umask=umask,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert weak_places(home / "state") == []


def weak_places(top: Path) -> list[str]:
    return [
        str(path)
        for path in (top, *top.rglob("*"))
        if not path.is_symlink() and (path.stat().st_mode & 0o077 or not path.stat().st_mode & 0o400)
    ]
