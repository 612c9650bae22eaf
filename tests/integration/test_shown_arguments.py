"""A prompt of the command line is in the list of processes no longer than the start takes, and in no child's at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.source_tree import ROOT

WORDS = "why-does-the-merger-fail quietly"
SCRIPT = """
steps:
  - tool_calls: [{name: run_terminal_cmd, arguments: {command: "echo ran"}}]
  - text: Done.
"""


def read_command_lines() -> dict[int, bytes]:
    """The command line of every process of this machine that can be read."""
    lines = {}
    for place in Path("/proc").iterdir():
        if place.name.isdecimal():
            try:
                lines[int(place.name)] = (place / "cmdline").read_bytes()
            except OSError:
                continue
    return lines


def list_showing() -> set[bytes]:
    """The command lines that show the prompt."""
    return {line for line in read_command_lines().values() if WORDS.encode() in line}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the list of processes is read from /proc")
@pytest.mark.parametrize(
    "form",
    [["-p", WORDS], [f"--print={WORDS}"], [f"-p{WORDS}"], ["-p", "Go on", "--append-system-prompt", WORDS]],
    ids=["apart", "equals", "joined", "system"],
)
def test_n40_no_process_of_a_private_run_shows_its_prompt(tmp_path, form):
    project, script = tmp_path / "project", tmp_path / "model.yaml"
    project.mkdir()
    script.write_text(SCRIPT)
    words = [sys.executable, str(ROOT / "agent_tui.py"), "--private", *form, "--model", f"scripted/{script}"]
    with subprocess.Popen(
        words,
        cwd=project,
        env={**os.environ, "AGENT_TUI_STATE_DIR": str(tmp_path / "state")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as run:
        assert run.stdin is not None
        while b"*" * len(WORDS) not in read_command_lines().get(run.pid, b""):  # it waits for its standard input
            assert run.poll() is None
        run.stdin.close()
        run.stdin = None
        leaks = set[bytes]()
        while run.poll() is None:
            leaks |= list_showing()
        output, errors = run.communicate()
    assert leaks == set()
    assert b"Done." in output, errors
