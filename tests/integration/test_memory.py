"""Notes about a project through the engine: proposed by the agent, kept by the user, told in the next session."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.cli import memory
from core.config.rules.notes import ProjectNotes
from core.errors import CommandRejected
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from tests.support.agent_case import calls, says
from tests.support.open_session import read_until, session_in, submit
from tests.support.story import access, project_at

PROPOSE = calls(("propose_memory", {"note": "Tests need a database.", "why": "They failed without one."}))


@pytest.fixture
def project(tmp_path) -> Path:
    return project_at(tmp_path / "project")


async def ask(engine, session, text="Go on."):
    after = engine.state(session).seq
    await submit(engine, cmd.TurnSubmit(session=session, text=text))
    return await read_until(engine, session, ev.TurnFinished, after=after)


async def notes_of(engine, session):
    answer = await engine.query(q.MemoryQuery(session=session))
    assert isinstance(answer, q.MemoryAnswer)
    return answer.notes


def told(engine, session) -> str:
    return "\n".join(str(message.content) for message in engine.state(session).messages)


@pytest.mark.parametrize("mode", ["agent", "ask", "plan"])
async def test_a_note_waits_while_the_turn_goes_on_and_binds_after_a_yes(project, mode):
    opening = cmd.SessionOpen(mode=mode)
    async with session_in(project, access((PROPOSE, says("Done."), says("Yes."))), opening) as (engine, session):
        seen = await ask(engine, session)
        notice = next(event for event in seen if isinstance(event, ev.Notice))
        assert (notice.message, notice.hint[:7]) == ("A note is waiting for you: Tests need a database.", "/memory")
        assert [event.summary for event in seen if isinstance(event, ev.ToolFinished)] == ["waiting for you: /memory"]
        (note,) = await notes_of(engine, session)
        assert (note.text, note.why, note.is_kept) == ("Tests need a database.", "They failed without one.", False)
        await ask(engine, session)
        assert '<rule path="memory/' not in told(engine, session)
    async with session_in(project, access((says("Yes."), says("Yes.")))) as (engine, session):
        await ask(engine, session)
        await submit(engine, cmd.MemoryJudge(session=session, id=note.id, verdict="accept", text="Start Postgres."))
        await ask(engine, session)
        assert "Start Postgres." in told(engine, session)  # told in the running session by its next message
    async with session_in(project, access((says("Yes."),))) as (engine, session):
        await ask(engine, session)
        rules = [rule for rule in engine.state(session).rules if rule.kind == "memory"]
        assert [(rule.path, rule.reason) for rule in rules] == [(f"memory/{note.id}", "memory: a note you accepted")]


async def test_the_user_keeps_a_note_and_forgets_it(project):
    async with session_in(project, access((says("Yes."),))) as (engine, session):
        await submit(engine, cmd.MemoryAdd(session=session, text="We say colour."))
        (note,) = await notes_of(engine, session)
        assert (note.text, note.is_kept) == ("We say colour.", True)
        await submit(engine, cmd.MemoryJudge(session=session, id=note.id, verdict="reject"))
        assert await notes_of(engine, session) == ()
        for refused in (
            cmd.MemoryJudge(session=session, id=note.id, verdict="accept"),
            cmd.MemoryAdd(session=session, text="  "),
        ):
            assert isinstance(await engine.submit(refused), cmd.Reject)


async def test_a_private_session_proposes_nothing(project):
    async with session_in(project, access((PROPOSE, says("Done."))), private=True) as (engine, session):
        seen = await ask(engine, session)
        (finished,) = (event for event in seen if isinstance(event, ev.ToolFinished))
        assert finished.status == "failed"
        assert ProjectNotes(project).load() == ()


def test_the_shell_lists_judges_and_adds(project, capsys):
    waiting = ProjectNotes(project).add("Tests need a database.", is_kept=False)
    where = str(project)

    def run(*words):
        code = memory.run(memory.parse((where, *words)))
        return code, capsys.readouterr().out

    assert run() == (0, f"? {waiting.id}  Tests need a database.\n")
    assert run("--accept", waiting.id)[0] == 0
    assert run("--add", "We say colour.")[0] == 0
    assert [line[:1] for line in run()[1].splitlines()] == [" ", " "]
    assert '"text": "We say colour."' in run("--json")[1]
    assert run("--reject", waiting.id)[0] == 0
    with pytest.raises(CommandRejected, match="there is no note"):
        run("--reject", waiting.id)
    with pytest.raises(CommandRejected, match="is kept already"):
        run("--add", "We say colour.")
    with pytest.raises(SystemExit):
        run("--add", "x", "--accept", "y")
