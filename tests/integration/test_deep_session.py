"""A session whose commands left directories in directories, from the first command to the review and its end."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.exits import ExitCode
from core.filesystem.removal import remove_tree
from core.user_dirs import get_state_dir
from tests.support.program import ask, environment, run
from tests.support.provider_streams import Call, Step
from tests.support.trust import trust

LEVELS = 1_050  # more than Python calls into itself
MAKE = f"""
import os, sys
os.makedirs(sys.argv[1], exist_ok=True)
os.chdir(sys.argv[1])
for _ in range({LEVELS}):
    os.mkdir("d")
    os.chdir("d")
open("leaf", "w").close()
"""


def command(text: str) -> Call:
    return Call(name="run_terminal_cmd", arguments={"command": text, "is_background": False})


@pytest.fixture
def project(tmp_path) -> Iterator[Path]:
    root = tmp_path / "project"
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    (root / "make.py").write_text(MAKE)
    trust(root)
    yield root
    for directory in (root, get_state_dir()):
        remove_tree(directory)


async def test_n15_deep_directories_of_a_command_are_seen_by_the_next_reviewed_and_accepted(project):
    steps = [Step(calls=[command(command_line)]) for command_line in ("python3 make.py .", "find d -type d | wc -l")]
    asked, requests = await ask(project, *steps, "Done.")
    assert (asked.code, "d/leaf" in asked.err) == (ExitCode.DONE, True), asked.err
    assert str(LEVELS) in str(requests[-1])
    accepted = await run(project, "review", "--accept", "all", env=environment(None))
    assert (accepted.code, "d/leaf" in accepted.err) == (ExitCode.DONE, True), accepted.err
    assert (project / ("d/" * LEVELS) / "leaf").is_file()


async def test_n15_deep_generated_directories_are_told_of_and_accepted_as_a_whole(project):
    asked, _ = await ask(project, Step(calls=[command("python3 make.py node_modules")]), "Done.")
    assert (asked.code, "Traceback" in asked.err) == (ExitCode.DONE, False)
    listing = await run(project, "review", "--print", env=environment(None))
    assert "# generated  node_modules (1 files" in listing.out, listing.err
    accepted = await run(project, "review", "--accept", "node_modules", env=environment(None))
    assert (accepted.code, accepted.err.split()) == (ExitCode.DONE, ["accepted", "node_modules"]), accepted.err
    assert (project / "node_modules" / ("d/" * LEVELS) / "leaf").is_file()


async def test_n15_a_session_with_deep_directories_is_let_go_of_whole(project):
    ended = await run(project, "box", "run", ".", "python3 make.py .", env=environment(None))
    assert (ended.code, "Traceback" in ended.err) == (ExitCode.DONE, False)
    assert list(get_state_dir().glob("workspaces/*/sessions/*")) == []
