"""What commands left beside the review and is older than the project, or stale: the model is told before its next step,
and the user by a notice and in the review."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.engine.engine import Engine
from core.protocol import commands as cmd
from tests.support.agent_case import calls, says
from tests.support.committed import committed
from tests.support.open_session import run_turn, session_in, submit
from tests.support.story import access

INSTALL = "sed -i s/one/two/ package.json; mkdir -p node_modules/a && cp package.json node_modules/a/made"


@pytest.fixture
def project(tmp_path) -> Path:
    return committed(tmp_path / "project", {"package.json": "one\n", ".gitignore": "node_modules\n"})


def told(engine: Engine, session: str) -> str:
    """All that the program told the model."""
    messages = engine.state(session).messages
    return "\n".join(message.content for message in messages if getattr(message, "origin", "") == "program")


async def test_n29_the_model_is_told_that_the_users_newer_directory_is_what_it_sees(project):
    steps = (
        *(calls(("run_terminal_cmd", {"command": INSTALL})), says("Done.")),
        *(calls(("run_terminal_cmd", {"command": "cat node_modules/a/made"})), says("Done.")),
    )
    async with session_in(project, access(steps)) as (engine, session):
        await run_turn(engine, session, "install")
        (project / "node_modules/a").mkdir(parents=True)
        (project / "node_modules/a/made").write_text("the user's\n")
        await run_turn(engine, session, "look")
        state = engine.state(session)
        assert "node_modules was changed in the project" in told(engine, session)
        assert "The user reviewed proposed hunks" not in told(engine, session)
        assert [verdict.superseded for verdict in state.review.verdicts] == [True]
        assert "the user's" in str(state.messages)


async def test_n28_the_model_is_told_once_what_was_made_from_a_rejected_file(project):
    steps = (calls(("run_terminal_cmd", {"command": INSTALL})), says("Done."), says("Seen."), says("Seen."))
    async with session_in(project, access(steps)) as (engine, session):
        await run_turn(engine, session, "install")
        await submit(engine, cmd.HunkResolve(session=session, path="package.json", verdict="reject"))
        await run_turn(engine, session, "next")
        await run_turn(engine, session, "next")
        assert told(engine, session).count("node_modules: made from package.json as it was before") == 1
        assert [bulk.stale for bulk in engine.state(session).review.bulks] != [""]
