"""A run that nobody watches: what its model is told, its limit of time, and its exit codes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from core.cli.print_mode import headless
from core.cli.print_mode.headless import run_print
from core.errors import ProviderError
from core.exits import ExitCode
from tests.integration.test_headless import options
from tests.integration.test_headless import project as project  # noqa: PLC0414 - a fixture
from tests.support.agent_case import calls, says
from tests.support.box_tiers import offered
from tests.support.configured import configured
from tests.support.story import access

AUTO = '[commands]\npolicy = "auto"\n'
SLOW = ("run_terminal_cmd", {"command": "sleep 60"})
COMMIT = (
    "git init -q . 2>/dev/null; git add -A; git -c user.name=a -c user.email=a@b.c commit -qm made; echo new > a.txt"
)
needs_box = pytest.mark.skipif(not offered(), reason="no sandbox here")


def read_trajectory(path: Path) -> tuple[set[str], str]:
    """The names of the tools that the model was offered, and all that it was sent."""
    trajectory = json.loads(path.read_text())
    names = {definition["function"]["name"] for definition in trajectory["agent"]["tool_definitions"]}
    return names, "\n".join(step["message"] for step in trajectory["steps"] if step["source"] != "agent")


def test_the_model_knows_that_nobody_watches(project, tmp_path, capsys):
    run_print(options(project, trajectory=tmp_path / "run.json"), models=access([says("Done.")]))
    names, text = read_trajectory(tmp_path / "run.json")
    assert "Nobody watches this run and nobody can answer" in text
    assert "run_terminal_cmd" in names or not offered()


@needs_box
def test_the_time_limit_ends_a_command_and_what_was_done_stays_pending(project, capsys):
    configured(AUTO)
    steps = [calls(("write", {"file_path": "b.txt", "contents": "b\n"})), calls(SLOW), says("never")]
    for exit_zero, code in ((False, ExitCode.LIMIT), (True, ExitCode.DONE)):
        arguments = options(project, time_limit=2, accept=("all",), output_format="json", exit_zero=exit_zero)
        assert run_print(arguments, models=access(list(steps))) == code
        metadata = json.loads(capsys.readouterr().out)["metadata"]
        assert (metadata["stopReason"], metadata["stopMessage"]) == ("limit", headless.OVER_TIME)
        assert [change["path"] for change in metadata["pendingChanges"]] == ["b.txt"]
        assert not (project / "b.txt").exists()


@needs_box
def test_before_a_long_limit_ends_the_model_is_told_to_finish(project, capsys, monkeypatch, tmp_path):
    configured(AUTO)
    monkeypatch.setattr(headless, "MIN_WARNED", 1)
    monkeypatch.setattr(headless, "WARNED_SHARE", 0.01)
    steps = [calls(("run_terminal_cmd", {"command": "sleep 2"})), says("Finished.")]
    arguments = options(project, time_limit=60, trajectory=tmp_path / "run.json")
    assert run_print(arguments, models=access(steps)) == ExitCode.DONE
    assert "About 1 minute is left of the time for this run" in read_trajectory(tmp_path / "run.json")[1]


@needs_box
def test_a_commit_of_the_agent_is_not_left_and_its_files_are_accepted(project, capsys):
    configured(AUTO)
    for words in (
        ("init", "-q"),
        ("add", "."),
        ("-c", "user.name=a", "-c", "user.email=a@b.org", "commit", "-qm", "i"),
    ):
        subprocess.run(["git", *words], cwd=project, check=True)
    steps = [calls(("run_terminal_cmd", {"command": COMMIT})), says("Done.")]
    arguments = options(project, accept=("all",), output_format="json")
    assert run_print(arguments, models=access(steps)) == ExitCode.DONE
    metadata = json.loads(capsys.readouterr().out)["metadata"]
    assert "a.txt" in metadata["acceptedChanges"]
    assert (project / "a.txt").read_text() == "new\n"
    assert [bulk["root"] for bulk in metadata["pendingBulks"]] == [".git"]


def test_exit_zero_is_for_what_is_left_and_not_for_a_failure(project, capsys):
    configured('[commands]\npolicy = "confirm"\n')
    for exit_zero, code in ((False, ExitCode.REFUSED), (True, ExitCode.DONE)):
        models = access([calls(("run_terminal_cmd", {"command": "true"})), says("Done.")])
        assert run_print(options(project, exit_zero=exit_zero), models=models) == code
    broken = access([ProviderError("No.")])
    assert run_print(options(project, exit_zero=True), models=broken) == ExitCode.FAILED
