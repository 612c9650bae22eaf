"""What is decided as a whole is listed without a screen, counts as waiting, and says so by the exit code; what git
ignores is kept beside the project and waits for nobody."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.exits import ExitCode
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.sessions.store import SessionStore
from tests.support.agent_case import calls, says
from tests.support.committed import committed
from tests.support.open_session import run_turn, session_in, submit
from tests.support.program import Ended, ask, environment, run
from tests.support.provider_streams import Call, Step
from tests.support.session_log import scan
from tests.support.story import access
from tui.state import ViewState

COMMIT = "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m work"
HUGE = "head -c 67108900 /dev/zero | tr '\\0' a > big.txt"
CACHE = "mkdir -p __pycache__ && echo x > __pycache__/m.pyc"


@pytest.fixture
def project(tmp_path) -> Path:
    return committed(tmp_path / "project", {"a.txt": "one\n"})


async def asked(project: Path, command: str, *arguments: str) -> Ended:
    step = Step(calls=[Call(name="run_terminal_cmd", arguments={"command": command})])
    ended, _ = await ask(project, step, "Done.", arguments=("--accept", "all", *arguments))
    return ended


async def said(project: Path, *words: str) -> Ended:
    return await run(project, *words, env=environment(None))


async def counted(project: Path) -> str:
    listed = await said(project, "sessions", "--runs")
    return listed.out.splitlines()[1].split()[4]


@pytest.mark.parametrize(("command", "root", "what"), [(COMMIT, ".git", "git state"), (HUGE, "big.txt", "too large")])
async def test_n16d_a_commit_or_a_huge_file_is_listed_and_the_file_leaves_exit_code_4(project, command, root, what):
    ended = await asked(project, command)
    assert ended.code == (ExitCode.DONE if root == ".git" else ExitCode.REFUSED)
    assert f"  {root} ({what}" in ended.err
    assert "agent-tui review --accept NAME" in ended.err
    listing = await said(project, "review")
    assert root in listing.out
    assert await counted(project) == "1"
    assert "nothing pending" not in listing.out
    everything = await said(project, "review", "--accept", "all")
    assert everything.code == ExitCode.REFUSED
    assert f"left      {root}" in everything.err


async def test_n16d_a_huge_file_is_one_change_with_its_size_and_is_accepted_by_name(project):
    ended = await asked(project, HUGE, "--output-format", "json")
    (bulk,) = json.loads(ended.out)["metadata"]["pendingBulks"]
    assert (bulk["root"], bulk["kind"], bulk["files"], bulk["bytes"]) == ("big.txt", "large", 1, 67_108_900)
    accepted = await said(project, "review", "--accept", "big.txt")
    assert accepted.code == ExitCode.DONE
    assert (project / "big.txt").stat().st_size == 67_108_900


async def test_n16a_ignored_files_wait_for_nobody_and_are_kept_in_one_line(project):
    ended = await asked(project, CACHE)
    assert (ended.code, ended.err.count("wait")) == (ExitCode.DONE, 0)
    assert not (project / "__pycache__").exists()
    assert await counted(project) == "0"
    listing = await said(project, "review")
    assert listing.out.splitlines()[0] == "# nothing pending review."
    assert "**/__pycache__ (1 files" in listing.out
    everything = await said(project, "review", "--accept", "all")
    assert everything.code == ExitCode.DONE
    result = await said(project, "review", "--accept", "**/__pycache__")
    assert result.code == ExitCode.DONE
    assert (project / "__pycache__/m.pyc").exists()


@pytest.mark.parametrize(
    ("command", "listed", "told"),
    [
        ("mkdir -p __pycache__ .pytest_cache; echo x > __pycache__/m.pyc; echo x > .pytest_cache/v", 0, []),
        ("mkdir -p out/__pycache__; echo x > out/a", 1, ["Outside the review: 1 file ignored by git."]),
        ("echo KEY=1 > local.env", 1, ["Outside the review: 1 file ignored by git."]),
    ],
)
async def test_caches_that_a_command_left_are_not_told_of_and_what_git_ignores_besides_is(
    project, command, listed, told
):
    (project / ".gitignore").write_text("out/\n*.env\n")
    steps = (calls(("run_terminal_cmd", {"command": f"{command}; echo two >> a.txt"})), says("Done."))
    async with session_in(project, access(steps)) as (engine, session):
        await run_turn(engine, session, "go")
        await submit(engine, cmd.HunkResolve(session=session, path="", verdict="accept"))
        events = [
            envelope.event for envelope in scan(SessionStore(project).sessions_path / session / "log.jsonl").envelopes
        ]
        assert [event.message for event in events if isinstance(event, ev.Notice) and event.level == "info"] == told
        review = engine.state(session).review
        assert review.bulks
        assert len(ViewState(review=review).bulks) == listed
