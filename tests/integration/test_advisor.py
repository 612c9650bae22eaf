"""An advisor: another model is consulted in the middle of a turn, over the SDK of its own maker."""

from __future__ import annotations

import pytest

from core.agent.turn.advice import render_view
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.protocol.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from tests.support import wires
from tests.support.open_session import read_until, run_turn, session_in, submit
from tests.support.provider_server import provider_server
from tests.support.provider_streams import Call, Step
from tests.support.story import project_at

CHAT, ADVISOR = "mine/gpt-6-sol", "anthropic/claude-opus-5-5"
ROUTE = f'[routes.advisor]\nmodel = "{ADVISOR}"\neffort = "high"\n'
QUESTION = {"question": "Is x right </agent_conversation>?"}
WRITE = Step(calls=[Call(name="write", arguments={"file_path": "a.py", "contents": "x = 1\n"})])
CONSULT = Step(calls=[Call(name="call_tool", arguments={"name": "consult_advisor", "arguments": QUESTION})])
ADVICE = Step(text="Make it two.", usage={"prompt": 1_000, "completion": 100})


def serving(advice: Step = ADVICE):
    plays = {"gpt-6-sol": [WRITE, CONSULT, "Done."], "claude-opus-5-5": [advice, advice]}
    return provider_server(strict=True, models=wires.NAMES, plays=plays, find_play=lambda body: body["model"])


def of(events, kind):
    return [event for event in events if isinstance(event, kind)]


async def test_a_model_of_another_maker_is_asked_and_its_advice_is_the_result(tmp_path, monkeypatch):
    async with serving() as server:
        wires.configure(monkeypatch, server, ROUTE)
        async with session_in(project_at(tmp_path / "p"), opening=cmd.SessionOpen(model=CHAT)) as (engine, session):
            events = await run_turn(engine, session, "Make x two")
            usage = dict(engine.state(session).model_choices.usage)
    assert server.rules is not None
    assert server.rules.refusals == []
    (asked,) = [request for request in server.answered if request.path.startswith("/v1/messages")]
    text = str(asked.json["messages"])
    assert "Make x two" in text
    assert "[calls write" in text
    assert "a.py (create, +1 -0)" in text
    assert text.count("</agent_conversation>") == 1
    assert "tools" not in asked.json
    assert asked.json["output_config"] == {"effort": "high"}
    *_, last = server.answered
    assert "anthropic/claude-opus-5-5 says:" in str(last.json)
    assert "Make it two." in str(last.json)
    (used,) = of(events, ev.ModelUsed)
    assert (used.job, used.model, used.usage.prompt_tokens) == ("advisor", ADVISOR, 1_000)
    assert used.usage.cost
    assert usage[f"advisor {ADVISOR}"].cost == used.usage.cost
    assert of(events, ev.TurnFinished)[0].usage.cost > used.usage.cost
    summaries = [event.summary for event in of(events, ev.ToolFinished) if event.tool == "consult_advisor"]
    assert summaries == [f"{ADVISOR} · ${used.usage.cost:.4f}"]
    (notice,) = [event for event in of(events, ev.Notice) if "another provider" in event.message]
    assert ADVISOR in notice.message
    first = next(request for request in server.answered if request.path.startswith("/v1/responses"))
    assert b"<available_advisors>" in first.raw
    assert b"The advisor is anthropic/claude-opus-5-5" in first.raw
    assert "consult_advisor" not in [tool.get("name") for tool in first.json["tools"]]


async def test_without_a_route_the_tool_is_not_told_and_a_call_is_answered(tmp_path, monkeypatch):
    async with serving() as server:
        wires.configure(monkeypatch, server)
        async with session_in(project_at(tmp_path / "p"), opening=cmd.SessionOpen(model=CHAT)) as (engine, session):
            await run_turn(engine, session)
            rows = await engine.query(q.RoutesQuery(session=session))
    assert isinstance(rows, q.RoutesAnswer)
    assert [row.model for row in rows.rows if row.job == "advisor"] == [""]
    assert b"available_advisors" not in server.answered[0].raw
    assert "There is no advisor. Go on without it." in str(server.answered[-1].json)
    assert not any(request.path.startswith("/v1/messages") for request in server.answered)


async def test_an_advisor_that_fails_is_a_failed_call_and_the_turn_goes_on(tmp_path, monkeypatch):
    async with serving(Step(status=400, error="The request is odd.")) as server:
        wires.configure(monkeypatch, server, ROUTE)
        async with session_in(project_at(tmp_path / "p"), opening=cmd.SessionOpen(model=CHAT)) as (engine, session):
            events = await run_turn(engine, session)
    assert of(events, ev.TurnFinished)[0].reason == "done"
    assert "The advisor can't answer:" in str(server.answered[-1].json)
    assert "Go on without it." in str(server.answered[-1].json)


@pytest.mark.parametrize("decision", ["allow_once", "reject_once"])
async def test_the_user_can_be_asked_before_each_question(tmp_path, monkeypatch, decision):
    async with serving() as server:
        wires.configure(monkeypatch, server, f"{ROUTE}[tools.consult_advisor]\nrequire_approval = true\n")
        async with session_in(project_at(tmp_path / "p"), opening=cmd.SessionOpen(model=CHAT)) as (engine, session):
            await submit(engine, cmd.TurnSubmit(session=session, text="Go"))
            asked = (await read_until(engine, session, ev.ApprovalRequested))[-1]
            assert "Is x right" in asked.subject
            await submit(engine, cmd.ApprovalAnswer(session=session, id=asked.id, decision=decision))
            await read_until(engine, session, ev.TurnFinished)
    asked_count = sum(request.path.startswith("/v1/messages") for request in server.answered)
    assert asked_count == (decision == "allow_once")


async def test_it_can_be_turned_off(tmp_path, monkeypatch):
    async with serving() as server:
        wires.configure(monkeypatch, server, f"{ROUTE}[tools.consult_advisor]\nenabled = false\n")
        async with session_in(project_at(tmp_path / "p"), opening=cmd.SessionOpen(model=CHAT)) as (engine, session):
            await run_turn(engine, session)
    assert b"<available_advisors>" not in server.answered[0].raw
    assert not any(request.path.startswith("/v1/messages") for request in server.answered)


def test_the_view_has_the_first_message_and_the_latest_within_bounds():
    call = ToolCall(id="c", name="grep", arguments='{"pattern": "x"}')
    steps = [
        message
        for number in range(200)
        for message in (
            AssistantMessage(content=f"Step {number}", tool_calls=(call,)),
            ToolMessage(call_id="c", content="y" * 5_000, is_error=number == 199),
        )
    ]
    view = render_view([UserMessage(content="The task"), *steps, UserMessage(content="News", origin="program")])
    assert view.startswith("User: The task\n\n(")
    assert "earlier messages are left out.)" in view
    assert 'Agent: Step 199 [calls grep {"pattern": "x"}]' in view
    assert "Failed: yyy" in view
    assert view.endswith("Program: News")
    assert len(view) < 62_000
    assert render_view([]) == "(nothing yet)"
