"""While git is asked whether a state of it may be taken over, the engine goes on."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from pathlib import Path

import pytest

from core.protocol import commands as cmd
from core.protocol import queries as q
from core.shadow.gitstate.git_state import GitState
from tests.integration.test_checkpoints import approved_turn, run, session_of, subjects
from tests.support.agent_case import says
from tests.support.trust import trust
from tests.unit.shadow.overlay_mount import needs_mounts

pytestmark = needs_mounts


@pytest.fixture
def project(tmp_path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("one\n")
    git = "git -c user.name=u -c user.email=u@example.org"
    subprocess.run(f"git init -qb main; git add -A; {git} commit -qm first", shell=True, cwd=root, check=True)
    trust(root)
    return root


async def test_n5_the_engine_answers_while_git_is_at_work_for_a_verdict(project, monkeypatch):
    begun, may_end = asyncio.Event(), threading.Event()
    loop, prepare = asyncio.get_running_loop(), GitState.prepare

    def slow(state: GitState, rel: str, place: Path) -> tuple[str, ...]:
        loop.call_soon_threadsafe(begun.set)
        assert may_end.wait(60)
        return prepare(state, rel, place)

    monkeypatch.setattr(GitState, "prepare", slow)
    steps = (run("git -c user.name=a -c user.email=a@b commit -q --allow-empty -m inside"), says("Done."))
    async with session_of(project, *steps) as (engine, session):
        await approved_turn(engine, session, "Commit it")
        await engine.submit(cmd.BulkResolve(session=session, root=".git", verdict="accept", confirmed=True))
        try:
            await begun.wait()
            answer = await engine.query(q.TreeQuery(session=session, path=""))
            assert "a.txt" in str(answer)
            assert engine.state(session).review.bulks
            assert subjects(project) == "first\n"
        finally:
            may_end.set()
        await engine.wait_idle(session)
        assert subjects(project) == "inside\nfirst\n"
        assert not engine.state(session).review.bulks
