"""A build in parallel that is killed, and a merge that is cut off: the same end, and nothing twice."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.arguments import ScreenArguments
from core.engine import Engine, EngineOptions
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.review import ConflictChoice
from core.sessions.store import SessionStore
from core.transports.stdio_client import connect
from tests.support.agent_case import calls, says
from tests.support.box_tiers import offered
from tests.support.folded import fold_events
from tests.support.session_log import scan
from tests.support.subagents import KNOWN, ROUNDED, Play, SubagentBuild, access, open_build, play, project_at, statuses

boxed = pytest.mark.skipif(not any(tier.is_contained for tier in offered()), reason="commands need a box")
HOST = Path(__file__).parents[1] / "support" / "subagents_host.py"


@pytest.fixture
def project(tmp_path) -> Path:
    return project_at(tmp_path / "project")


def copied(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-a", source, target], check=True)


async def finished(project: Path, plays: Play | None = None) -> tuple[str, Path]:
    """A build of which `rate` is merged last, and clashes; the session, and where it lies."""
    plays = dict(plays or play())
    gate = asyncio.Event()
    plays["rate"] = [*plays["rate"][:-1], [gate, *says("It knows.")]]
    async with open_build(project, plays) as (engine, team):

        def on(event: ev.AnyEvent) -> None:
            if len(team.of(ev.SubagentMerged)) == 3:
                gate.set()

        await team.build(on=on)
        assert statuses(engine, team)["rate"] == "in_progress"
        return team.session, SessionStore(project).sessions_path / team.session


@boxed
async def test_a_merge_that_was_cut_off_anywhere_is_carried_on_and_done_once(project, tmp_path):
    plays = play()
    step = calls(("run_terminal_cmd", {"command": "mkdir -p out/rate && echo x > out/rate/log && rm -f .gitignore"}))
    plays["rate"] = [plays["rate"][0], step, plays["rate"][1]]
    session, place = await finished(project, plays)
    whole = scan(place / "log.jsonl").envelopes
    begin = max(envelope.seq for envelope in whole if isinstance(envelope.event, ev.SubagentMerging))
    end = max(envelope.seq for envelope in whole if isinstance(envelope.event, ev.SubagentMerged))
    expected_state = fold_events([envelope for envelope in whole if envelope.seq <= end])
    assert end - begin >= 3
    lines = (place / "log.jsonl").read_bytes().splitlines(keepends=True)
    backup = tmp_path / "kept"
    copied(place, backup)
    for last in range(begin, end + 1):
        shutil.rmtree(place)
        copied(backup, place)
        (place / "log.jsonl").write_bytes(b"".join(lines[:last]))
        engine = Engine(project, options=EngineOptions(watch=False), models=access(plays))
        try:
            assert isinstance(await engine.submit(cmd.SessionResume(session=session)), cmd.Ack)
            state = engine.state(session)
            assert {path: (change.pending, change.competing_versions) for path, change in state.changes.items()} == {
                path: (change.pending, change.competing_versions) for path, change in expected_state.changes.items()
            }
            assert {(bulk.root, bulk.files) for bulk in state.review.bulks} == {
                (bulk.root, bulk.files) for bulk in expected_state.review.bulks
            }
            assert sorted(subagent.state for subagent in state.subagents.values()) == ["closed"] * 3 + ["merged"]
        finally:
            await engine.close()


@boxed
async def test_killed_again_and_again_the_build_comes_to_the_same_end(project):
    session = ""
    for moment in (ev.SubagentProgressed, ev.SubagentFinished, ev.SubagentMerging, ev.SubagentMerged):
        client = await connect(ScreenArguments(directory=project, program=(sys.executable, str(HOST))))
        reply = await client.submit(cmd.SessionResume(session=session) if session else cmd.SessionOpen())
        assert isinstance(reply, cmd.Ack), reply
        session, team = reply.session, SubagentBuild(client, reply.session)
        await team.build(after=reply.seq, until=lambda event, moment=moment: isinstance(event, moment))
        os.kill(client.pid, signal.SIGKILL)
        await client.close()
    async with resumed(project, session) as (engine, team):
        state = engine.state(session)
        assert state.current_turn is None
        if "calc.py" not in state.changes or not state.changes["calc.py"].competing_versions:
            await team.build(after=state.seq)
        [rival] = state.changes["calc.py"].competing_versions
        assert {rival.todo} | {hunk.todo for hunk in state.changes["calc.py"].hunks} == {"rounding", "rate", "showing"}
        settle = cmd.ConflictResolve(session=session, path="calc.py", choices=(ConflictChoice(take="both"),))
        assert isinstance(await engine.submit(settle), cmd.Ack)
        await engine.wait_idle(session)
        await proofs_done(engine, team)
        if set(statuses(engine, team).values()) != {"completed"}:
            await team.build(after=state.seq)
        assert set(statuses(engine, team).values()) == {"completed"}
        assert set(state.changes) == {"calc.py", "docs/use.md", "NEWS.md"}
        calc = engine._find_session(session).shadow.read("calc.py").decode()
        assert all(calc.count(line) == 1 for line in (ROUNDED, KNOWN, " EUR"))
    log = scan(SessionStore(project).sessions_path / session / "log.jsonl")
    seen = [envelope.event for envelope in log.envelopes]
    for subagent in {start.id for start in seen if isinstance(start, ev.SubagentStarted)}:
        assert sum(isinstance(entry, ev.SubagentMerged) and entry.id == subagent for entry in seen) <= 1


async def proofs_done(engine: Engine, team: SubagentBuild) -> None:
    """Until the command that proves a todo whose conflict was settled has ended."""
    live = engine._find_session(team.session)
    while live.tasks.has_running_commands:
        await asyncio.wait(set(live.tasks._commands._tasks))
    await engine.wait_idle(team.session)


@contextlib.asynccontextmanager
async def resumed(project: Path, session: str) -> AsyncIterator[tuple[Engine, SubagentBuild]]:
    engine = Engine(project, options=EngineOptions(watch=False), models=access())
    assert isinstance(await engine.submit(cmd.SessionResume(session=session)), cmd.Ack)
    try:
        yield engine, SubagentBuild(engine, session)
    finally:
        await engine.close()
