"""`-p --trajectory FILE`: the session as an ATIF trajectory, however the turn has ended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.arguments import PrintArguments
from core.cli.arguments import parse
from core.cli.print_mode.headless import run_print
from core.errors import ProviderError
from core.exits import ExitCode
from tests.support.agent_case import calls, says
from tests.support.atif import list_faults
from tests.support.story import access, project_at, story
from tests.support.trust import trust

LOOK = calls(("read_file", {"target_file": "a.txt"}))


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr("sys.stdin", None)
    return project_at(tmp_path / "project")


def run(project: Path, steps, **fields) -> tuple[int, dict]:
    path = project.parent / "trajectory.json"
    code = run_print(PrintArguments(directory=project, prompt="Do it", trajectory=path, **fields), models=access(steps))
    trajectory = json.loads(path.read_text())
    assert list_faults(trajectory) == []
    return code, trajectory


def test_a_run_that_accepts_writes_its_verdicts(project):
    _, trajectory = run(project, story(), accept=("all",))
    assert {change["path"]: change["verdict"] for change in trajectory["extra"]["changes"]} == {
        "a.txt": "accept",
        "new.txt": "accept",
    }
    assert trajectory["steps"][0]["source"] == "system"
    assert trajectory["agent"]["tool_definitions"]
    assert trajectory["final_metrics"]["total_prompt_tokens"] > 0
    edits = [
        call["extra"]["hunks"][0]["verdict"]
        for step in trajectory["steps"]
        for call in step.get("tool_calls", ())
        if "hunks" in call.get("extra", {})
    ]
    assert edits == ["accept", "accept"]


def test_a_run_that_reached_a_limit_writes_it_too(project):
    code, trajectory = run(project, [LOOK, LOOK, says("Done.")], max_steps=1)
    assert (code, trajectory["extra"]["turns"][0]["stop_reason"]) == (ExitCode.LIMIT, "limit")


def test_a_run_that_failed_writes_it_too_and_replaces_the_file_of_the_last(project):
    (project.parent / "trajectory.json").write_text("of the last run")
    code, trajectory = run(project, [LOOK, ProviderError("gone", code="GONE")])
    assert (code, trajectory["extra"]["turns"][0]["stop_reason"]) == (ExitCode.FAILED, "failed")


def test_a_file_that_could_not_be_written_is_a_failure(project, capsys):
    path = project.parent / "taken"
    path.mkdir()
    path.joinpath("do-it.atif.json").mkdir()
    arguments = PrintArguments(directory=project, prompt="Do it", trajectory=path)
    assert run_print(arguments, models=access([says("Done.")])) == ExitCode.FAILED
    assert "! No trajectory: " in capsys.readouterr().err


def test_a_place_that_is_none_is_refused_before_the_run(project, capsys, monkeypatch):
    monkeypatch.chdir(project)
    trust(project)
    for place in ("nowhere/t.json", "."):
        with pytest.raises(SystemExit) as refused:
            parse(["-p", "x", "--trajectory", place])
        assert refused.value.code == ExitCode.USAGE
        assert "--trajectory" in capsys.readouterr().err
    arguments = parse(["-p", "x", "--trajectory", "t.json"])
    assert isinstance(arguments, PrintArguments)
    assert arguments.trajectory == project / "t.json"
