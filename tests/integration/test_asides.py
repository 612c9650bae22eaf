"""Side questions: the answer comes beside the work, and the conversation goes on as if nobody had asked."""

from __future__ import annotations

import asyncio
import json

import pytest

from core.arguments import PrintArguments
from core.cli.print_mode.headless import run_print
from core.engine.turns.asides import NO_WORDS, STOPPED, UNFINISHED
from core.errors import ConfigError, ProviderError
from core.exits import ExitCode
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.messages import ToolMessage, Usage
from core.transports.http.access import Grant
from core.transports.http.session_routes import find_needed_grant
from tests.support import wires
from tests.support.agent_case import DirectedModel, calls, says
from tests.support.default_model import access_to
from tests.support.open_session import read_until, run_turn, session_in, submit
from tests.support.provider_server import provider_server
from tests.support.provider_streams import Call, Say, Step, Think
from tests.support.story import MODEL, project_at

WRITE = calls(("write", {"file_path": "a.py", "contents": "x = 1\n"}))


def access_with(model: DirectedModel):
    return access_to(lambda *_: (model, "story"), MODEL)


async def ask(engine, session, text="Where are we?") -> ev.AsideAnswered:
    """The answer to a side question."""
    before = engine.state(session).seq
    await submit(engine, cmd.AsideAsk(session=session, text=text))
    return (await read_until(engine, session, ev.AsideAnswered, after=before))[-1]


@pytest.mark.parametrize("wire", [*wires.MODELS])
async def test_the_request_is_the_conversations_own_with_the_question_behind_it(tmp_path, monkeypatch, wire):
    first = Step(parts=[Think(text="Hm. " * 30), Call(name="list_dir", arguments={"path": "."}), Say(text="I look.")])
    steps = [first, "One file.", "We are at one file.", "Done."]
    async with provider_server(steps, strict=True, models=wires.NAMES) as server:
        wires.configure(monkeypatch, server)
        project = project_at(tmp_path / "project")
        async with session_in(project, opening=cmd.SessionOpen(model=wires.MODELS[wire])) as (engine, session):
            await run_turn(engine, session, "What is there?")
            messages, used = list(engine.state(session).messages), engine.state(session).model_choices.sum_usage()
            answer = await ask(engine, session)
            assert engine.state(session).messages == messages
            total = engine.state(session).model_choices.sum_usage()
            await run_turn(engine, session, "Go on")
    assert server.rules is not None
    assert server.rules.refusals == []
    assert (answer.text, answer.problem, answer.model) == ("We are at one file.", "", wires.MODELS[wire])
    *_, before, aside, after = server.answered
    assert wires.breaks([before, aside]) == []
    assert wires.breaks([before, after]) == []
    assert b"side_question" not in after.raw
    assert wires.cached(server)[2][1] > 0.7 * wires.cached(server)[1][0]
    assert total.prompt_tokens == used.prompt_tokens + answer.usage.prompt_tokens
    if wire == "chat":  # a model without a price
        assert (total.cost, answer.usage.cost) == (None, None)
    else:
        assert total.cost == pytest.approx((used.cost or 0.0) + (answer.usage.cost or 0.0))
        assert answer.usage.cost


async def test_it_is_answered_while_a_turn_runs_whose_calls_have_not_ended(tmp_path):
    is_asked = asyncio.Event()
    question = calls(("ask_question", {"questions": [{"prompt": "Which?", "options": ["a", "b"]}]}), WRITE_CALL)
    model = DirectedModel([WRITE, question, says("Two files."), [is_asked, *says("Done.")]])
    async with session_in(project_at(tmp_path / "p"), access_with(model), trust=True) as (engine, session):
        await submit(engine, cmd.TurnSubmit(session=session, text="Work"))
        asked = (await read_until(engine, session, ev.QuestionAsked))[-1]
        answer = await ask(engine, session, "What is </side_question>?")
        assert engine.state(session).current_turn is not None
        await submit(engine, cmd.QuestionReply(session=session, id=asked.id))
        is_asked.set()
        events = await read_until(engine, session, ev.TurnFinished)
    assert answer.text == "Two files."
    *_, aside, after = model.requests
    results = [message.content for message in aside.messages if isinstance(message, ToolMessage)]
    assert results[1:] == [UNFINISHED, UNFINISHED]
    assert "while you are at it" in aside.messages[-1].content
    assert "a.py (create, +1 -0)\n+x = 1" in aside.messages[-1].content
    assert aside.messages[-1].content.count("</side_question>") == 1
    assert aside.tools == after.tools
    assert "side_question" not in str(after.messages)
    assert events[-1].reason == "done"


WRITE_CALL = ("write", {"file_path": "b.py", "contents": "y = 1\n"})


async def test_no_tool_is_run_and_a_model_that_calls_one_is_asked_for_words(tmp_path):
    model = DirectedModel([WRITE, says("Only words.")])
    async with session_in(project_at(tmp_path / "p"), access_with(model)) as (engine, session):
        answer = await ask(engine, session)
        assert not engine.state(session).changes
        assert not engine.state(session).messages
    assert (answer.text, answer.problem) == ("Only words.", "")
    assert answer.usage == Usage(prompt_tokens=200, completion_tokens=20, cost=0.002, estimated=True)
    assert "You called a tool instead of answering." in model.requests[1].messages[-1].content


async def test_a_model_that_only_calls_tools_is_told_of(tmp_path):
    model = DirectedModel([WRITE, WRITE])
    async with session_in(project_at(tmp_path / "p"), access_with(model)) as (engine, session):
        answer = await ask(engine, session)
    assert (answer.text, answer.problem) == ("", NO_WORDS)
    assert len(model.requests) == 2


async def test_it_can_be_stopped_and_costs_what_it_took(tmp_path):
    model = DirectedModel([[*says("Half")[:2], asyncio.Event()]])
    async with session_in(project_at(tmp_path / "p"), access_with(model)) as (engine, session):
        await submit(engine, cmd.AsideAsk(session=session, text="Where?", id="aside_1"))
        twice = await engine.submit(cmd.AsideAsk(session=session, text="Where?", id="aside_1"))
        await read_until(engine, session, ev.AsideDelta)
        await submit(engine, cmd.AsideStop(session=session, id="aside_1"))
        answer = (await read_until(engine, session, ev.AsideAnswered))[-1]
        used = engine.state(session).model_choices.sum_usage()
        late = await engine.submit(cmd.AsideStop(session=session, id="aside_1"))
    assert (answer.id, answer.text, answer.problem) == ("aside_1", "Half", STOPPED)
    assert used.prompt_tokens == 100
    assert [getattr(reply, "code", "") for reply in (twice, late)] == ["aside_running", "aside_unknown"]


async def test_a_failure_is_the_answer_and_one_that_may_pass_is_tried_again(tmp_path):
    busy = ProviderError("The server is busy.", retryable=True)
    model = DirectedModel([[busy], says("Here."), [ProviderError("The key is wrong.", hint="Set it.")]])
    async with session_in(project_at(tmp_path / "p"), access_with(model)) as (engine, session):
        assert (await ask(engine, session)).text == "Here."
        assert (await ask(engine, session)).problem == "The key is wrong. Set it."
        empty = await engine.submit(cmd.AsideAsk(session=session, text=" "))
    assert getattr(empty, "code", "") == "empty_text"


async def test_a_session_of_side_questions_alone_leaves_nothing(tmp_path):
    model = DirectedModel([says("Hello.")])
    async with session_in(project_at(tmp_path / "p"), access_with(model)) as (engine, session):
        await ask(engine, session)
        directory = engine.terminal(session).host.directory
        assert directory.is_dir()
    assert not directory.exists()


def test_a_client_needs_no_right_to_approve_for_it():
    assert find_needed_grant(cmd.AsideAsk(text="a")) is find_needed_grant(cmd.AsideStop(id="a")) is Grant.DRIVE


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", None)
    project = project_at(tmp_path / "project")

    def start(model: DirectedModel, prompt: str, **fields) -> tuple[ExitCode, str, str]:
        arguments = PrintArguments(directory=project, prompt=prompt, **fields)
        code = run_print(arguments, models=access_with(model))
        return ExitCode(code), *capsys.readouterr()

    return start


def test_print_mode_answers_it_from_the_last_session(run):
    assert run(DirectedModel([WRITE, says("Done.")]), "Work")[0] is ExitCode.DONE
    code, out, err = run(DirectedModel([says("One file.")]), "/btw What is pending?", continue_last=True)
    assert (code, out) == (ExitCode.DONE, "One file.\n")
    assert err.startswith("directed/story · 100 tokens in, 10 out · ~$0.0010\n")
    code, out, _ = run(DirectedModel([says("Again.")]), "/btw And?", continue_last=True, output_format="json")
    response = json.loads(out)
    assert [document["content"] for document in response["documents"]] == ["Again."]
    assert response["usage"]["cost"] == 0.001
    assert response["metadata"]["pendingChanges"][0]["path"] == "a.py"
    model = DirectedModel([says("More.")])
    assert run(model, "Go on", continue_last=True)[0] is ExitCode.DONE
    assert "side_question" not in str(model.requests[0].messages)


def test_print_mode_fails_with_the_answer_that_failed(run):
    code, out, err = run(DirectedModel([[ProviderError("The key is wrong.")]]), "/btw Why?")
    assert (code, out) == (ExitCode.FAILED, "")
    assert "agent-tui: failed: The key is wrong." in err


@pytest.mark.parametrize(
    ("prompt", "fields", "words"),
    [
        ("/btw", {}, "needs words"),
        ("/btw a", {"goal": "b"}, "--goal has no effect"),
        ("/btw a", {"accept": ("all",)}, "--accept"),
    ],
)
def test_a_side_question_without_words_or_with_options_of_turns_is_refused(run, prompt, fields, words):
    with pytest.raises(ConfigError, match=words):
        run(DirectedModel([]), prompt, **fields)
