"""What a command leaves behind is recorded whole, whatever one of its files is like, and gives nobody rights."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.source_tree import ROOT

DEEP = "python3 -c \"open('{0}', 'w').write('[' * 100000 + ']' * 100000)\""


@pytest.fixture
def project(tmp_path) -> Path:
    place = tmp_path / "project"
    place.mkdir()
    (place / "kept.txt").write_text("a\n")
    return place


def run_boxed(project: Path, command: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, str(ROOT / "agent_tui.py"), "box", "run", ".", command]
    environment = {**os.environ, "AGENT_TUI_STATE_DIR": str(project.parent / "state")}
    return subprocess.run(words, cwd=project, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "name",
    ["package.json", "a.ipynb", "tsconfig.json", ".mcp.json", ".cursor/mcp.json", ".claude/settings.json", "a.toml"],
)
def test_n40_a_file_that_is_nested_too_deep_costs_no_other_effect_of_a_command(project, name):
    result = run_boxed(
        project, f"mkdir -p .cursor .claude; echo 1 > aaa; {DEEP.format(name)}; echo 2 > zzz; rm kept.txt"
    )
    assert result.returncode == 0, result.stderr
    output = result.stdout + result.stderr
    assert all(file_name in output for file_name in ("aaa", name, "zzz", "kept.txt")), output
    assert "Traceback" not in output
    assert "RecursionError" not in output


@pytest.mark.parametrize(
    "name", ["package.json", ".mcp.json", ".cursor/mcp.json", ".cursor/hooks.json", ".vscode/mcp.json"]
)
def test_n40_the_program_starts_in_a_project_whose_files_are_nested_too_deep(project, name):
    (project / name).parent.mkdir(exist_ok=True)
    (project / name).write_text("[" * 100_000 + "]" * 100_000)
    script = project.parent / "model.yaml"
    script.write_text("steps: [Done.]\n")
    words = ["-p", "hello", "--model", f"scripted/{script}", "--output-format", "json", "--trust"]
    environment = {**os.environ, "AGENT_TUI_STATE_DIR": str(project.parent / "state")}
    done = subprocess.run(
        [sys.executable, str(ROOT / "agent_tui.py"), *words],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Done." in json.dumps(json.loads(done.stdout))
    assert "RecursionError" not in done.stderr


def test_n40_no_file_in_the_kept_cache_of_commands_runs_as_somebody_else(project):
    result = run_boxed(
        project,
        "mkdir -p ~/.cache/a; cp /bin/true ~/.cache/tool; cp /bin/true ~/.cache/a/tool; chmod 6755 ~/.cache/tool"
        " ~/.cache/a/tool; chmod g+s ~/.cache/a; echo made > made",
    )
    assert result.returncode == 0, result.stderr
    paths = [path for path in (project.parent / "state").rglob("*") if not path.is_symlink()]
    assert [path for path in paths if path.name == "tool"]
    assert [path for path in paths if path.lstat().st_mode & (stat.S_ISUID | stat.S_ISGID)] == []
