"""A goal that the agent proposes: a question that waits, and a yes that sets the goal."""

from __future__ import annotations

import pytest

from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.documents import QuestionAnswer
from core.protocol.messages import ToolMessage
from core.state.fold import apply_event
from core.state.goals import GOAL_QUESTION, find_accepted_goal
from core.state.session import SessionState
from core.transports.http.access import Grant
from core.transports.http.session_routes import find_needed_grant
from tests.support.agent_case import DirectedModel, calls, says
from tests.support.default_model import access_to
from tests.support.open_session import read_until, run_turn, session_in, submit
from tests.support.story import MODEL, project_at

PROPOSE = calls(
    ("call_tool", {"name": "propose_goal", "arguments": {"condition": "a.py exists", "check": "test -e a.py"}})
)
BARE = calls(("propose_goal", {"goal": "a.py is short"}))
YES = QuestionAnswer(question=GOAL_QUESTION, options=("yes",))


def words(text: str) -> QuestionAnswer:
    return QuestionAnswer(question=GOAL_QUESTION, text=text)


def access_with(model: DirectedModel):
    return access_to(lambda *_: (model, "story"), MODEL)


async def propose(engine, session, *answers: QuestionAnswer) -> list[ev.AnyEvent]:
    """The events of a turn in which a goal is proposed and answered."""
    await submit(engine, cmd.TurnSubmit(session=session, text="Make a.py"))
    asked = (await read_until(engine, session, ev.QuestionAsked))[-1]
    await submit(engine, cmd.QuestionReply(session=session, id=asked.id, answers=answers))
    return await read_until(engine, session, ev.TurnFinished)


def result_of(model: DirectedModel, number: int = 1) -> str:
    return next(str(m.content) for m in reversed(model.requests[number].messages) if isinstance(m, ToolMessage))


async def test_a_yes_sets_the_goal_and_the_turn_goes_on_until_its_check_passes(tmp_path):
    write = calls(("write", {"file_path": "a.py", "contents": "x = 1\n"}))
    model = DirectedModel([PROPOSE, says("I stop."), write, says("Done.")])
    async with session_in(project_at(tmp_path / "p"), access_with(model), trust=True) as (engine, session):
        events = await propose(engine, session, YES)
        goal = engine.state(session).goal
    asked = next(event for event in events if isinstance(event, ev.QuestionAsked))
    assert asked.proposal == ev.GoalProposal(condition="a.py exists", check="test -e a.py")
    assert "Go on until this holds? a.py exists" in asked.questions[0].text
    assert "the program runs, unasked: test -e a.py" in asked.questions[0].text
    assert asked.lasting
    assert result_of(model).startswith("The user agreed: the goal is set: a.py exists\n")
    assert goal is not None
    assert (goal.condition, goal.check, goal.reason) == ("a.py exists", "test -e a.py", "met")
    assert [event.outcome for event in events if isinstance(event, ev.GoalChecked)] == ["unmet", "met"]
    assert len(model.requests) == 4


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ((QuestionAnswer(question=GOAL_QUESTION, options=("no",)),), "The user set no goal. Do the task without one"),
        ((words("no, only a.py"),), "The user set no goal. They said: no, only a.py Do the task without one"),
        ((), "The user set no goal. Do the task without one"),
    ],
)
async def test_anything_but_a_yes_sets_none(tmp_path, answers, told):
    model = DirectedModel([PROPOSE, says("Fine.")])
    async with session_in(project_at(tmp_path / "p"), access_with(model)) as (engine, session):
        events = await propose(engine, session, *answers)
        assert engine.state(session).goal is None
    assert result_of(model).startswith(told)
    assert not any(isinstance(event, ev.GoalSet) for event in events)


async def test_the_user_can_write_another_one(tmp_path):
    model = DirectedModel([PROPOSE, says("Fine.")])
    async with session_in(project_at(tmp_path / "p"), access_with(model), trust=True) as (engine, session):
        await propose(engine, session, words("goal: it is quiet --check true --rounds 2"))
        goal = engine.state(session).goal
    assert goal is not None
    assert (goal.condition, goal.check, goal.max_rounds) == ("it is quiet", "true", 2)
    assert result_of(model).startswith("The user set another goal: it is quiet\nThe program runs `true`")


async def test_a_late_yes_sets_the_goal_of_the_turn_that_it_begins(tmp_path):
    model = DirectedModel([BARE])
    async with session_in(project_at(tmp_path / "p"), access_with(model)) as (engine, session):
        await submit(engine, cmd.TurnSubmit(session=session, text="Make a.py"))
        asked = (await read_until(engine, session, ev.QuestionAsked))[-1]
        await submit(engine, cmd.TurnInterrupt(session=session))
        await read_until(engine, session, ev.TurnFinished)
        assert asked.id in engine.state(session).questions
    model = DirectedModel([says("I am done."), says("MET: it is short.")])
    async with session_in(project_at(tmp_path / "p"), access_with(model), cmd.SessionResume()) as (engine, session):
        await run_turn(engine, session, cmd.QuestionReply(session=session, id=asked.id, answers=(YES,)))
        goal = engine.state(session).goal
    assert goal is not None
    assert (goal.condition, goal.check, goal.reason) == ("a.py is short", "", "met")
    assert "Your goal, until the user drops it: a.py is short" in str(model.requests[0].messages)


async def test_where_nobody_can_be_asked_the_agent_is_told_to_check_it_itself(tmp_path):
    model = DirectedModel([PROPOSE, says("Fine.")])
    async with session_in(project_at(tmp_path / "p"), access_with(model), interactive=False) as (engine, session):
        events = await run_turn(engine, session)
    assert not any(isinstance(event, ev.QuestionAsked | ev.GoalSet) for event in events)
    assert "Work until it holds all the same: run `test -e a.py` before you stop" in result_of(model)
    assert "propose_goal" not in str(model.requests[0].messages)


async def test_the_tool_is_told_of_once_beside_the_list(tmp_path):
    model = DirectedModel([says("One."), says("Two.")])
    async with session_in(project_at(tmp_path / "p"), access_with(model)) as (engine, session):
        await run_turn(engine, session)
        await run_turn(engine, session)
    assert str(model.requests[1].messages).count("<available_goals>") == 1
    assert "propose_goal" not in [tool.name for tool in model.requests[0].tools]


def test_an_answer_needs_the_right_to_approve():
    reply = cmd.QuestionReply(id="ask_1", answers=(YES,))
    assert find_needed_grant(reply) is Grant.APPROVE
    assert find_needed_grant(cmd.QuestionReply(id="ask_1", answers=())) is Grant.DRIVE
    other = QuestionAnswer(question="q1", options=("yes",))
    assert find_needed_grant(cmd.QuestionReply(id="ask_1", answers=(other,))) is Grant.DRIVE


def test_a_question_of_the_models_own_sets_no_goal_whatever_its_id():
    asked = ev.QuestionAsked(id="a", call="c", questions=(), lasting=True)
    state = SessionState()
    apply_event(state, ev.Envelope(seq=1, session="s", at=1, event=asked, turn="t"))
    assert find_accepted_goal(state.questions["a"], (YES,)) is None
