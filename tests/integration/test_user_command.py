from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from core.engine import Engine
from core.engine.shared.models import ModelAccess
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.messages import UserMessage
from tests.support.agent_case import says
from tests.support.history import faults
from tests.support.open_session import engine_in, read_until, submit
from tests.support.story import access, project_at


@pytest.fixture
def project(tmp_path) -> Path:
    return project_at(tmp_path / "project")


def engine_on(project: Path, models: ModelAccess | None = None):
    return engine_in(project, models or access([says("Seen.")]))


async def run(engine: Engine, session: str, command: str) -> ev.CommandRan:
    before = engine.state(session).seq
    await submit(engine, cmd.CommandRun(session=session, command=command))
    event = (await read_until(engine, session, ev.CommandRan, after=before))[-1]
    assert isinstance(event, ev.CommandRan)
    return event


async def test_a_command_of_the_users_runs_in_the_box_unasked_and_the_next_prompt_tells_of_it(project):
    async with engine_on(project) as engine:
        session = await submit(engine, cmd.SessionOpen())
        ran = await run(engine, session, "cat a.txt; echo x > made; cd /usr; exit 3")
        assert (ran.exit_code, ran.effects) == (3, "changed: created made; pending review")
        assert "one\ntwo" in ran.output
        assert not (project / "made").exists()
        state = engine.state(session)
        assert list(state.changes) == ["made"]
        assert not state.approvals
        await submit(engine, cmd.TurnSubmit(session=session, text="Well?"))
        await read_until(engine, session, ev.TurnFinished)
        messages = [m.content for m in state.messages if isinstance(m, UserMessage) and "$ cat a.txt" in m.content]
        assert len(messages) == 1
        assert "exit code 3" in messages[0]
        assert state.unreported_commands == {}
        assert state.turns[-1].tool_count == 0
        assert [document.sequence for document in state.turns[-1].list_finished_documents()] == [1]
        assert faults(state.messages) == []


async def test_escape_stops_it_and_drops_what_it_did(project):
    async with engine_on(project) as engine:
        session = await submit(engine, cmd.SessionOpen())
        before = engine.state(session).seq
        await submit(engine, cmd.CommandRun(session=session, command="touch half; echo begun; sleep 600"))
        async with contextlib.aclosing(engine.events(session, after=before)) as stream:
            async for envelope in stream:
                if isinstance(envelope.event, ev.ToolOutput) and "begun" in envelope.event.text:
                    break
        assert isinstance(await engine.submit(cmd.TurnInterrupt(session=session)), cmd.Ack)
        ran = (await read_until(engine, session, ev.CommandRan, after=before))[-1]
        assert (ran.ended, ran.exit_code) == ("stopped", None)
        assert "dropped" in ran.effects
        assert engine.state(session).changes == {}


async def test_the_shell_stands_where_it_stood_when_the_session_goes_on(project):
    async with engine_on(project) as engine:
        session = await submit(engine, cmd.SessionOpen())
        await run(engine, session, "mkdir sub; touch sub/f; cd sub; export A=5 SECRET_KEY=$(echo geh)eim")
    async with engine_on(project) as engine:
        assert await submit(engine, cmd.SessionResume(session=session)) == session
        assert (await run(engine, session, 'echo "$A|${SECRET_KEY-gone}|${PWD##*/}"')).output.strip() == "5|gone|sub"
        await submit(engine, cmd.ShellReset(session=session))
        assert (await run(engine, session, 'echo "${A-none}|$PWD"')).output.strip() == f"none|{project}"
    assert b"geheim" not in b"".join(path.read_bytes() for path in log_of(project))


def log_of(_project: Path) -> list[Path]:
    from core.user_dirs import get_state_dir

    return [path for path in get_state_dir().rglob("log.jsonl") if path.is_file()]


async def test_s9_a_job_that_a_dead_engine_left_is_told_as_ended(project):
    from core.engine.session.recovery import close_open_turn
    from core.state.fold import apply_event
    from core.state.session import SessionState

    state = SessionState()
    seen: list[ev.AnyEvent] = []

    def emit(event: ev.AnyEvent) -> None:
        seen.append(event)
        apply_event(state, ev.Envelope(seq=state.seq + 1, session="s", at=1, event=event))

    emit(ev.JobStarted(id="job_1", call="c", command="serve"))
    assert "ended with the program" in close_open_turn(state, emit, is_reopened=True)
    assert [event.ended for event in seen if isinstance(event, ev.JobEnded)] == ["lost"]
    assert state.jobs == {}


@pytest.mark.parametrize("command", ["", "  \n", "a\0b"])
async def test_what_is_no_command_is_rejected(project, command):
    async with engine_on(project) as engine:
        session = await submit(engine, cmd.SessionOpen())
        assert isinstance(await engine.submit(cmd.CommandRun(session=session, command=command)), cmd.Reject)


async def test_the_tier_is_told_once_and_again_only_when_it_is_another(project):
    async with engine_on(project) as engine:
        session = await submit(engine, cmd.SessionOpen())
        box_event = (await read_until(engine, session, ev.BoxFound))[-1]
        assert engine.state(session).tier == box_event.tier
        await run(engine, session, "touch x")
    async with engine_on(project) as engine:
        await submit(engine, cmd.SessionResume(session=session))
        await run(engine, session, "true")
        assert engine.state(session).tier == box_event.tier
        events = await read_until(engine, session, ev.SessionResumed)
        assert sum(isinstance(event, ev.BoxFound) for event in events) == 1


async def test_what_cursorignore_keeps_from_the_agent_no_command_can_read(project):
    (project / ".cursorignore").write_text("secret.txt\nkeys/\n")
    (project / "secret.txt").write_text("geheim\n")
    (project / "keys").mkdir()
    (project / "keys" / "k").write_text("geheim\n")
    async with engine_on(project) as engine:
        session = await submit(engine, cmd.SessionOpen())
        ran = await run(engine, session, "cat secret.txt keys/k a.txt; grep -r geheim .; true")
        assert "geheim" not in ran.output
        assert "one" in ran.output
        assert engine.state(session).changes == {}


async def test_a_command_for_the_machine_runs_in_the_project_itself_and_waits_for_no_review(project):
    async with engine_on(project) as engine:
        session = await submit(engine, cmd.SessionOpen())
        before = engine.state(session).seq
        await submit(engine, cmd.CommandRun(session=session, command="echo real > made", on_machine=True))
        seen = await read_until(engine, session, ev.CommandRan, after=before)
        assert (project / "made").read_text() == "real\n"
        assert [event.tool for event in seen if isinstance(event, ev.ToolRequested)] == ["machine_command"]
        assert engine.state(session).changes == {}
        (document,) = [event.document for event in seen if isinstance(event, ev.DocumentFinished)]
        assert document.metadata.permissions == ("all",)
        (effects,) = [event for event in seen if isinstance(event, ev.EffectsRecorded)]
        assert (effects.on_machine, effects.created) == (True, ("made",))
        assert "unsandboxed" in seen[-1].output
