"""A machine where nothing can hold a command: its kernel refuses namespaces, mounts and Landlock to this program."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from core.exits import ExitCode
from core.user_dirs import get_config_dir
from tests.contract.test_access_matrix import ARGUMENTS
from tests.support.box_tiers import offered
from tests.support.program import PROGRAM, ROOT

pytestmark = pytest.mark.skipif(not offered(), reason="this machine is one anyway; what runs here shows it everywhere")
BARE = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from core.sandbox.inside import seccomp
seccomp._DENIED_ON_ALL["landlock_create_ruleset"] = 444
seccomp.install_filter(seccomp.build_filter())
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


@pytest.fixture
def project(tmp_path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.py").write_text("x = 1\n")
    get_config_dir().mkdir(parents=True, exist_ok=True)
    (get_config_dir() / "config.toml").write_text('[commands]\npolicy = "auto"\n[permissions]\nallow = ["Shell(*)"]\n')
    return root


def on_a_bare_machine(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    run = [sys.executable, "-c", BARE, PROGRAM[1], *words]
    return subprocess.run(run, cwd=project, capture_output=True, text=True, check=False, timeout=50)


def playing(place: Path, *tools: str) -> str:
    """A scripted model that calls these tools, each in a step of its own."""
    steps = [{"tool_calls": [{"name": name, "arguments": ARGUMENTS[name]}]} for name in tools]
    place.write_text(json.dumps({"turns": [{"steps": [*steps, "Done."]}]}))
    return f"scripted/{place}"


@pytest.mark.parametrize("mode", ["agent", "plan", "ask"])
def test_m13_s12_without_a_screen_no_command_runs_whatever_is_allowed(project, tmp_path, mode):
    model = playing(tmp_path / "script.yaml", "run_terminal_cmd", "run_python")
    arguments = ("-p", "Do it", "--trust", "--mode", mode, "--model", model, "--output-format", "json")
    ended = on_a_bare_machine(project, *arguments)
    assert ended.returncode == (ExitCode.REFUSED if mode == "agent" else ExitCode.DONE), ended.stderr
    documents = json.loads(ended.stdout)["documents"]
    calls = [document for document in documents if document["type"] in {"terminal_command", "tool_call"}]
    assert len(calls) == 2
    assert not any(call["metadata"].get("exitCode") == 0 for call in calls)
    assert sorted(path.name for path in project.iterdir()) == ["a.py"]


@pytest.mark.parametrize("rule", ["Shell(*)", "Machine(make test)"])
def test_s12_no_command_is_offered_where_none_can_run(project, tmp_path, rule):
    (get_config_dir() / "config.toml").write_text(f'[permissions]\nallow = ["{rule}"]\n')
    place = tmp_path / "script.yaml"
    place.write_text(json.dumps({"turns": [{"steps": ["Done."]}]}))
    file = tmp_path / "run.json"
    on_a_bare_machine(project, "-p", "Do it", "--trust", "--model", f"scripted/{place}", "--trajectory", str(file))
    trajectory = json.loads(file.read_text())
    names = {definition["function"]["name"] for definition in trajectory["agent"]["tool_definitions"]}
    text = "\n".join(step["message"] for step in trajectory["steps"])
    assert "approves it" not in text
    assert ("run_terminal_cmd" in names) is rule.startswith("Machine")
    assert ("No command can run here" in text) is rule.startswith("Shell")
    assert ("only those that a rule of the user allows" in text) is rule.startswith("Machine")


def test_m13_without_a_screen_a_rule_that_names_a_command_lets_it_run(project, tmp_path):
    (get_config_dir() / "config.toml").write_text('[permissions]\nallow = ["Machine(echo x > made)"]\n')
    place = tmp_path / "script.yaml"
    names = ("echo x > made", "echo y > other")
    steps = [{"tool_calls": [{"name": "run_terminal_cmd", "arguments": {"command": name}}]} for name in names]
    place.write_text(json.dumps({"turns": [{"steps": [*steps, "Done."]}]}))
    arguments = ("-p", "Do it", "--model", f"scripted/{place}", "--output-format", "json")
    untrusted_run = on_a_bare_machine(project, *arguments)
    assert untrusted_run.returncode == ExitCode.REFUSED
    assert not (project / "made").exists()
    ended = on_a_bare_machine(project, *arguments, "--trust")
    assert ended.returncode == ExitCode.REFUSED, ended.stderr
    assert (project / "made").read_text() == "x\n"
    assert not (project / "other").exists()
    assert "`-p --allow 'Machine(COMMAND)'` lets exactly that command run" in ended.stdout


def test_s12_box_run_and_doctor_say_why_and_what_would_help(project):
    ended = on_a_bare_machine(project, "box", "run", ".", "touch made")
    assert (ended.returncode, ended.stdout) == (125, "")
    assert ended.stderr.startswith("agent-tui: not run: no sandbox here: T1: ")
    assert "[EPERM]. A container's syscall filter forbids namespaces or mounts." in ended.stderr
    assert [path.name for path in project.iterdir()] == ["a.py"]
    lines = on_a_bare_machine(project, "doctor", "--probe").stdout.splitlines()
    assert next(line for line in lines if line.startswith("commands")).split()[1] == "T4:"
    refused = {line.split()[1]: line for line in lines if line.lstrip().startswith("not T")}
    assert set(refused) == {"T1:", "T2a:", "T2b:", "T2c:", "T3:"}
    assert "[EPERM]" in refused["T1:"]
    assert "[ENOSYS]" in refused["T3:"]
    assert "Linux 6.2 or newer has it" in refused["T3:"]


def test_n27_without_a_box_nothing_is_verified_and_that_is_said(project, tmp_path):
    config = get_config_dir() / "config.toml"
    config.write_text('[commands]\npolicy = "auto"\nchecks = ["true"]\n')
    place = tmp_path / "script.yaml"
    edit = {"name": "write", "arguments": {"file_path": "b.py", "contents": "y = 2\n"}}
    place.write_text(json.dumps({"turns": [{"steps": [{"tool_calls": [edit]}, "Done."]}]}))
    arguments = ("-p", "Do it", "--trust", "--accept", "verified", "--model", f"scripted/{place}")
    ended = on_a_bare_machine(project, *arguments)
    assert ended.returncode == ExitCode.REFUSED, ended.stderr
    assert "so nothing is verified here" in ended.stderr
    assert sorted(path.name for path in project.iterdir()) == ["a.py"]
