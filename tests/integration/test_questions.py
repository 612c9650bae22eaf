"""Questions to the user, from the engine's door: answered in time, after an interrupt, after a kill, by nobody."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from core.arguments import PrintArguments, ScreenArguments
from core.cli.print_mode.headless import run_print
from core.engine import Engine, EngineOptions
from core.exits import ExitCode
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.documents import ClarificationDocument, QuestionAnswer
from core.sessions.store import SessionStore
from core.transports.stdio_client import connect
from tests.integration.test_engine_provider import assert_prefixes_hold, assert_valid, opened, serving
from tests.support.agent_case import calls, says
from tests.support.configured import configured
from tests.support.folded import fold_events
from tests.support.history import faults
from tests.support.open_session import engine_in, read_until, run_turn, set_keys, submit
from tests.support.provider_streams import Call, Step
from tests.support.session_log import scan
from tests.support.story import access, project_at

PROGRAM = (sys.executable, str(Path(__file__).parents[2] / "agent_tui.py"))
ASKED = {
    "title": "Before I plan",
    "questions": [
        {
            "id": "db",
            "header": "Database",
            "prompt": "Which database? @a.txt",
            "options": [{"id": "pg", "label": "PostgreSQL", "recommended": True}, {"id": "lite", "label": "SQLite"}],
        },
        {"id": "auth", "prompt": "Which login?", "options": [{"id": "jwt", "label": "JWT"}, {"label": "Session"}]},
    ],
}
ANSWERS = (QuestionAnswer(question="db", options=("lite",)), QuestionAnswer(question="auth", text="none yet"))
SHORT = "Which database? @a.txt → SQLite\nWhich login? → none yet"
ASKS = Step(calls=[Call(name="ask_question", arguments=ASKED)])
both_dialects = pytest.mark.parametrize("model", ["openai/gpt-4o-mini", "anthropic/claude-3-5-haiku-latest"])


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    set_keys(monkeypatch)
    return project_at(tmp_path / "project")


async def asked_in(engine: Engine, session: str) -> ev.QuestionAsked:
    before = engine.state(session).seq
    await submit(engine, cmd.TurnSubmit(session=session, text="Plan it"))
    return (await read_until(engine, session, ev.QuestionAsked, after=before))[-1]


def reply(session: str, asked: ev.QuestionAsked, *answers: QuestionAnswer) -> cmd.QuestionReply:
    return cmd.QuestionReply(session=session, id=asked.id, answers=answers)


def texts(server) -> str:
    return json.dumps(server.answered[-1].json["messages"])


@both_dialects
async def test_an_answer_after_the_interrupt_begins_a_turn_that_knows_question_and_answer(project, monkeypatch, model):
    async with serving(monkeypatch, ASKS, "SQLite it is.", "Yes.") as server, engine_in(project) as engine:
        session = await opened(engine, model, mode="plan")
        asked = await asked_in(engine, session)
        stopped = await run_turn(engine, session, cmd.TurnInterrupt(session=session))
        state = engine.state(session)
        assert stopped[-1].reason == "interrupted"
        (document,) = (e.document for e in stopped if isinstance(e, ev.DocumentFinished))
        assert isinstance(document, ClarificationDocument)
        assert (document.content, document.metadata.answers) == ("Before I plan", ())
        assert list(state.questions) == [asked.id]
        seen = await run_turn(engine, session, reply(session, asked, *ANSWERS))
        assert (seen[-1].reason, state.turns[-1].prompt) == ("done", SHORT)
        assert (state.questions, state.unreported_answers) == ({}, {})
        sent_text = texts(server)
        assert "The question stays open" in sent_text
        assert "db: Which database? @a.txt\\n  -> lite (SQLite)\\nauth: Which login?\\n  -> none yet" in sent_text
        assert "attached_files" not in sent_text  # what the model wrote into its question is no mention of the user's
        late = await engine.submit(reply(session, asked, *ANSWERS))
        assert isinstance(late, cmd.Reject)
        assert late.code == "already_answered"
        await run_turn(engine, session, "Sure?")
        assert texts(server).count("none yet") == sent_text.count("none yet")
        for request in server.answered:
            assert_valid(request)
        assert_prefixes_hold(server.answered)
        assert faults(state.messages) == []


@both_dialects
async def test_a_question_is_there_again_after_a_kill_and_its_answer_begins_a_turn(project, monkeypatch, model):
    async with serving(monkeypatch, ASKS, "SQLite it is.") as server:
        client = await connect(ScreenArguments(directory=project, program=PROGRAM))
        session = (await client.submit(cmd.SessionOpen(model=model, mode="plan"))).session
        stream = client.events(session)
        await client.submit(cmd.TurnSubmit(session=session, text="Plan it"))
        async for envelope in stream:
            if isinstance(envelope.event, ev.QuestionAsked):
                break
        os.kill(client.pid, signal.SIGKILL)
        await client.close()
        async with engine_in(project) as engine:
            await engine.submit(cmd.SessionResume(session=session))
            state = engine.state(session)
            (asked,) = state.questions.values()
            (document,) = state.turns[-1].list_finished_documents()
            assert [question.id for question in document.metadata.questions] == ["db", "auth"]
            seen = await run_turn(engine, session, reply(session, asked, *ANSWERS))
            assert seen[-1].reason == "done"
            assert "lite (SQLite)" in texts(server)
            assert_valid(server.requests[-1])
            assert faults(state.messages) == []
        again = fold_events(scan(SessionStore(project).sessions_path / session / "log.jsonl").envelopes)
        assert (again.questions, again.unreported_answers, again.messages) == ({}, {}, state.messages)


def directed(project: Path, *steps) -> Engine:
    return Engine(project, options=EngineOptions(watch=False), models=access(steps))


async def interrupted_at(engine: Engine) -> tuple[str, ev.QuestionAsked]:
    """A session, and the question at which its turn was interrupted."""
    session = await opened(engine, "")
    asked = await asked_in(engine, session)
    await run_turn(engine, session, cmd.TurnInterrupt(session=session))
    return session, asked


ASK = ("ask_question", ASKED)


async def test_an_answer_that_was_given_and_not_told_is_told_at_the_next_step_there_is(project):
    engine = directed(project, calls(ASK), says("First."), says("Second."))
    session, asked = await interrupted_at(engine)
    runtime = engine._find_session(session)
    runtime.emit(ev.QuestionAnswered(id=asked.id, answers=ANSWERS))  # and then the program is killed
    await engine.close()
    engine = directed(project, says("Third."))
    await engine.submit(cmd.SessionResume(session=session))
    assert list(engine.state(session).unreported_answers) == [asked.id]
    await run_turn(engine, session, "Hello")
    history = engine.state(session).messages
    assert [("lite (SQLite)" in message.content) for message in history[-3:]] == [False, True, False]
    assert engine.state(session).unreported_answers == {}
    await engine.close()


async def test_an_answer_that_follows_the_interrupt_at_once_is_the_beginning_of_a_turn_all_the_same(project):
    engine = directed(project, calls(ASK), says("SQLite then."))
    session = await opened(engine, "")
    asked = await asked_in(engine, session)
    await engine.submit(cmd.TurnInterrupt(session=session))
    assert isinstance(await engine.submit(reply(session, asked, *ANSWERS)), cmd.Ack)
    state = engine.state(session)
    async with contextlib.aclosing(engine.events(session)) as stream:
        async for envelope in stream:
            if isinstance(envelope.event, ev.TurnFinished) and envelope.event.reason == "done":
                break
    assert [turn.reason for turn in state.turns] == ["interrupted", "done"]
    assert (state.turns[-1].prompt, state.unreported_answers) == (SHORT, {})
    assert faults(state.messages) == []
    await engine.close()


async def test_an_answer_while_another_turn_runs_reaches_that_turn_before_it_ends(project):
    engine = directed(project, calls(ASK), says("Busy."), says("SQLite then."))
    session, asked = await interrupted_at(engine)
    state = engine.state(session)
    before = state.seq
    await engine.submit(cmd.TurnSubmit(session=session, text="Something else"))
    assert isinstance(await engine.submit(reply(session, asked, *ANSWERS)), cmd.Ack)
    await read_until(engine, session, ev.TurnFinished, after=before)
    assert state.turns[-1].prompt == "Something else"
    assert any("lite (SQLite)" in message.content for message in state.messages[-3:])
    assert faults(state.messages) == []
    await engine.close()


async def test_a_rewind_to_before_the_answer_opens_the_question_again_and_one_to_before_it_takes_it_away(project):
    engine = directed(project, calls(ASK), says("SQLite."))
    session, asked = await interrupted_at(engine)
    await run_turn(engine, session, reply(session, asked, *ANSWERS))
    state = engine.state(session)
    first, second = state.checkpoints
    await submit(engine, cmd.CheckpointRestore(session=session, id=second, what="conversation"))
    assert (list(state.questions), state.unreported_answers) == ([asked.id], {})
    await submit(engine, cmd.CheckpointRestore(session=session, id=first, what="conversation"))
    assert (state.questions, state.messages) == ({}, [])
    await engine.close()


BAD = {
    "an unknown part": (QuestionAnswer(question="x", text="y"),),
    "an unknown option": (QuestionAnswer(question="db", options=("mysql",)),),
    "two options of one": (QuestionAnswer(question="db", options=("pg", "lite")),),
    "an empty answer": (QuestionAnswer(question="db", text=" "),),
    "the same part twice": (ANSWERS[0], ANSWERS[0]),
    "too much": (QuestionAnswer(question="db", text="x" * 100_001),),
}


async def test_an_answer_that_does_not_fit_is_refused_and_the_question_waits_on(project):
    engine = directed(project, calls(ASK), says("Well."))
    session = await opened(engine, "")
    asked = await asked_in(engine, session)
    for name, answers in BAD.items():
        refused = await engine.submit(reply(session, asked, *answers))
        assert isinstance(refused, cmd.Reject), name
        assert refused.hint or name == "the same part twice"
    seen = await run_turn(engine, session, reply(session, asked))
    assert "recommended option (db: pg (PostgreSQL))" in engine.state(session).messages[-2].content
    assert seen[-1].reason == "done"
    await engine.close()


@pytest.mark.parametrize("form", ["text", "json"])
def test_without_a_screen_the_model_is_told_to_go_on_and_the_output_says_what_was_asked(
    project, capsys, monkeypatch, form
):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    access_ = access([calls(ASK), says("I take PostgreSQL.")])
    options = PrintArguments(directory=project, prompt="Do it", output_format=form, mode="plan")
    assert run_print(options, models=access_) == ExitCode.DONE
    out, err = capsys.readouterr()
    if form == "text":
        assert out == "I take PostgreSQL.\n"
        assert "? Which database? @a.txt\n  - PostgreSQL (recommended)\n  - SQLite\n? Which login?" in err
        assert "Nobody answered." in err
        return
    (asked,) = (document for document in json.loads(out)["documents"] if document["type"] == "clarification")
    assert asked["content"] == "Before I plan"
    assert asked["metadata"]["answers"] == []
    assert [o["recommended"] for o in asked["metadata"]["questions"][0]["options"]] == [True, False]


async def test_a_client_can_say_that_nobody_answered_and_never_a_yes(tmp_path):
    configured('[commands]\npolicy = "confirm"\n')
    project = project_at(tmp_path / "project")
    models = access([calls(("run_terminal_cmd", {"command": "true"})), says("Then not.")])
    async with engine_in(project, models, interactive=True) as engine:
        session = await submit(engine, cmd.SessionOpen())
        await submit(engine, cmd.TurnSubmit(session=session, text="Do it"))
        asked = (await read_until(engine, session, ev.ApprovalRequested))[-1]
        yes = cmd.ApprovalAnswer(session=session, id=asked.id, decision="allow_once", by="program")
        assert isinstance(await engine.submit(yes), cmd.Reject)
        await submit(engine, cmd.ApprovalAnswer(session=session, id=asked.id, decision="reject_once", by="program"))
        events = await read_until(engine, session, ev.TurnFinished)
        [resolved] = [event for event in events if isinstance(event, ev.ApprovalResolved)]
        assert (resolved.decision, resolved.by) == ("reject_once", "program")
        contents = [message.content for message in engine.state(session).messages if hasattr(message, "call_id")]
        note = "Nothing was changed. Do not try it in another form."
        assert contents == [f"Not run: The program refused this call. {note}"]
