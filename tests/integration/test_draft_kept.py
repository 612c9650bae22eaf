"""What stood in the prompt unsent is there again when the session is gone on with."""

from __future__ import annotations

from core.engine import Engine, EngineOptions
from core.protocol import commands as cmd
from core.sessions.store import SessionStore
from tests.support.story import access, project_at, story

OPTIONS = EngineOptions(watch=False)


async def leave_with(project, text: str, session: str = "") -> str:
    """Open a session, or go on with one, and leave with this in the prompt."""
    engine = Engine(project, options=OPTIONS, models=access(story()))
    reply = await engine.submit(cmd.SessionResume(session=session) if session else cmd.SessionOpen())
    assert isinstance(reply, cmd.Ack), reply
    await engine.submit(cmd.DraftKeep(session=reply.session, text=text))
    await engine.wait_idle(reply.session)
    await engine.close()
    return reply.session


async def draft_of(project, session: str) -> str:
    engine = Engine(project, options=OPTIONS, models=access(story()))
    await engine.submit(cmd.SessionResume(session=session))
    draft = engine.state(session).draft
    await engine.close()
    return draft


async def test_n16a_an_unsent_draft_outlives_the_program_also_in_a_session_without_a_turn(tmp_path):
    project = project_at(tmp_path / "project")
    session = await leave_with(project, "half a\nthought")
    assert await draft_of(project, session) == "half a\nthought"


async def test_n16a_a_prompt_that_was_emptied_leaves_no_draft(tmp_path):
    project = project_at(tmp_path / "project")
    session = await leave_with(project, "half a thought")
    await leave_with(project, "", session)
    assert SessionStore(project).has_session(session) is False
