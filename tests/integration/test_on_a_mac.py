"""The main job, kills and the review as on a Mac: under a CPython like Darwin's, and where names ignore case.

The tests of these promises are run again by a pytest of their own, since the whole process has to look like it.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.arguments import ScreenArguments
from core.exits import ExitCode
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.transports.stdio_client import StdioClient, connect
from tests.support import program
from tests.support.darwin.machine import fold_names_below, make_darwin_python
from tests.support.program import ask
from tests.support.provider_streams import Call, Step
from tests.support.story import project_at

ROOT = Path(__file__).parents[2]
HOST = ROOT / "tests" / "support" / "engine_host.py"
PROMISES = {
    "the main job": ("test_demo.py", "newcomer"),
    "kills": ("test_kill.py", ""),
    "the review": ("test_engine_review.py", "not rename"),  # the renames are made by layers of commands
}
EDIT = Call(name="search_replace", arguments={"file_path": "a.txt", "old_string": "two", "new_string": "TWO"})
COMMAND = Call(name="run_terminal_cmd", arguments={"command": "echo ran > ran.txt", "is_background": False})

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def darwin_python(tmp_path_factory) -> Path:
    return make_darwin_python(tmp_path_factory.mktemp("darwin") / "venv")


def _start_alone() -> None:
    """Ask for a process of its own, by an interpreter of its own."""


def play_again(promise: str, python: Path | str, variables: dict[str, str], place: Path) -> str:
    """Return what pytest says at the end of the tests of a promise, under another interpreter or other variables."""
    file, chosen = PROMISES[promise]
    options = ("-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-p", "no:benchmark", "--timeout", "250", "-k", chosen)
    done = subprocess.run(
        [python, "-m", "pytest", *options, f"--basetemp={place}", f"tests/integration/{file}"],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")} | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    return done.stdout.splitlines()[-1]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("promise", PROMISES)
def test_what_is_promised_holds_where_python_is_that_of_a_mac(promise, darwin_python, tmp_path):
    assert " passed" in play_again(promise, darwin_python, {}, tmp_path / "again")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("promise", PROMISES)
def test_what_is_promised_holds_where_names_ignore_case(promise, tmp_path):
    assert " passed" in play_again(promise, sys.executable, fold_names_below(tmp_path), tmp_path / "again")


async def test_a_run_on_a_mac_edits_and_accepts_and_says_that_no_command_runs(darwin_python, tmp_path, monkeypatch):
    monkeypatch.setattr(program, "PROGRAM", (str(darwin_python), str(ROOT / "agent_tui.py")))
    project = project_at(tmp_path / "Project")
    steps = (Step(calls=[COMMAND]), Step(calls=[EDIT]), "I changed it.")
    ended, requests = await ask(project, *steps, arguments=("--accept", "all"), before=_start_alone, seconds=100)
    assert ended.code == ExitCode.REFUSED  # of the command
    assert (project / "a.txt").read_text() == "one\nTWO\nthree\n"
    assert not (project / "ran.txt").exists()
    assert "OS: Darwin" in requests[0].raw.decode()


async def wait_changed(client: StdioClient, session: str) -> None:
    async for envelope in client.events(session):
        if isinstance(envelope.event, ev.FilesChanged):
            return


async def test_the_watch_of_a_wide_tree_leaves_the_engine_its_client(darwin_python, tmp_path, monkeypatch):
    log = tmp_path / "log"
    monkeypatch.setenv("SIM_FSEVENTS", "1")  # a stream of more paths than a tenth of the descriptors closes the first
    monkeypatch.setenv("DARWIN_LOG", str(log))
    project = project_at(tmp_path / "project")
    for number in range(40):
        (project / f"directory{number}").mkdir()
    start = ("/bin/sh", "-c", 'ulimit -n 256; exec "$0" "$@"', str(darwin_python), str(HOST))
    client = await connect(ScreenArguments(directory=project, program=start))
    try:
        opened = await client.submit(cmd.SessionOpen())
        async with asyncio.timeout(60):
            changed = asyncio.create_task(wait_changed(client, opened.session))
            while not changed.done():  # the first changes may come before the watch
                (project / "directory7" / "seen.txt").write_text("seen")
                await asyncio.wait({changed}, timeout=0.5)
        assert isinstance(await client.submit(cmd.SessionClose(session=opened.session)), cmd.Ack)
    finally:
        await client.close()
    assert not log.exists()
