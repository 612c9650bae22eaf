from __future__ import annotations

import pytest

from core.protocol import events as ev
from core.protocol.documents import Option, Question
from core.state.fold import apply_event
from core.state.recap import describe_absence, describe_resume, format_span
from core.state.session import SessionState

MINUTE = 60_000
QUESTION = Question(id="q", text="Which?", options=(Option(id="a", label="a"), Option(id="b", label="b")))


def state_after(*events: tuple[int, ev.AnyEvent]) -> SessionState:
    """The state after events at these minutes."""
    state, turn = SessionState(), 0
    for seq, (minute, event) in enumerate(events, 1):
        turn += isinstance(event, ev.TurnStarted)
        apply_event(state, ev.Envelope(seq=seq, session="s", at=minute * MINUTE, event=event, turn=f"turn_{turn}"))
    return state


def start(prompt: str) -> ev.TurnStarted:
    return ev.TurnStarted(prompt=prompt, mode="agent", model="m")


def end(minutes: int, reason: ev.TurnEnd = "done") -> ev.TurnFinished:
    return ev.TurnFinished(reason=reason, duration_ms=minutes * MINUTE)


def test_an_absence_in_which_a_turn_ended_is_told_with_what_waits():
    asked = ev.QuestionAsked(id="a", call="c", questions=(QUESTION,), lasting=True)
    state = state_after((1, start("Fix the\nparser")), (20, end(19)), (21, start("And?")), (22, asked), (30, end(9)))
    text = describe_absence(state, 5 * MINUTE, 30 * MINUTE)
    assert text == (
        'You were away for 25 minutes. 2 turns ended. You asked last: "And?" (done). Waiting for you: 1 question.'
    )


def test_turns_that_a_loop_began_are_counted_but_the_user_has_not_asked_them():
    again = ev.TurnStarted(prompt="Look again", mode="agent", model="m", cause="loop", loop="loop_1")
    state = state_after((1, start("Fix")), (2, end(1)), (10, again), (12, end(2)), (20, again), (22, end(2, "failed")))
    text = describe_absence(state, 5 * MINUTE, 25 * MINUTE)
    assert text == 'You were away for 20 minutes. 2 turns ended. You asked last: "Fix" (done). The last turn failed.'


@pytest.mark.parametrize("since", [25, 21])
def test_an_absence_in_which_nothing_ended_is_not_told(since):
    state = state_after((1, start("Fix")), (20, end(19, "failed")), (22, start("More")))
    assert describe_absence(state, since * MINUTE, 60 * MINUTE) == ""


def test_a_question_in_a_running_turn_is_told():
    asked = ev.ApprovalRequested(id="a", call="c", kind="command", subject="make")
    state = state_after((1, start("x" * 80)), (10, asked))
    text = describe_absence(state, 5 * MINUTE, 12 * MINUTE)
    assert text.startswith('You were away for 7 minutes. You asked last: "xxx')
    assert text.endswith('x…" (still running). Waiting for you: 1 approval.')
    assert describe_absence(state, 11 * MINUTE, 60 * MINUTE) == ""


@pytest.mark.parametrize(
    ("reason", "words"),
    [("failed", '"Fix" (failed)'), ("limit", '"Fix" (ended at a limit)'), ("interrupted", '"Fix" (stopped)')],
)
def test_a_resumed_session_is_told_by_its_last_prompt_and_its_goal(reason, words):
    goal = ev.GoalSet(condition="c")
    state = state_after((1, goal), (2, start("Fix")), (3, end(1, reason)), (4, ev.DraftKept(text="and")))
    text = describe_resume(state, 50 * 60 * MINUTE)
    assert text == (
        f"Last used 2 days ago. You asked last: {words}. The goal is being worked on. "
        "Waiting for you: a message that was not sent."
    )


def test_a_session_without_a_turn_is_not_told():
    assert describe_resume(SessionState(), 50 * 60 * MINUTE) == ""


@pytest.mark.parametrize(
    ("ms", "span"),
    [(0, "1 minute"), (119 * MINUTE, "119 minutes"), (120 * MINUTE, "2 hours"), (72 * 60 * MINUTE, "3 days")],
)
def test_a_span_is_told_by_its_largest_unit(ms, span):
    assert format_span(ms) == span
