from __future__ import annotations

from core.engine.session.recovery import INTERRUPTED_RESULT, close_open_turn, complete_results
from core.protocol import events as ev
from core.protocol.documents import TextDocument
from core.protocol.messages import AssistantMessage, ToolCall, ToolMessage, Usage, UserMessage, WireAnswer
from core.state.fold import apply_event
from core.state.session import SessionState
from tests.support.folded import fold_events

CALL = ToolCall(id="call_1", name="read_file", arguments="{}")
EVENTS: list[ev.AnyEvent] = [
    ev.SessionStarted(workspace="/w", mode="agent", model="scripted/x"),
    ev.TurnStarted(prompt="hi", mode="agent", model="scripted/x"),
    ev.SessionRenamed(title="hi"),
    ev.MessageAppended(message=UserMessage(content="hi")),
    ev.StepStarted(step=1),
    ev.DocumentStarted(id="d1", kind="text", sequence=1),
    ev.DocumentFinished(document=TextDocument(id="d1", sequence=1, content="one")),
    ev.MessageAppended(message=AssistantMessage(content="one", tool_calls=(CALL,))),
    ev.StepFinished(step=1, usage=Usage(prompt_tokens=10, completion_tokens=2, cost=0.5)),
    ev.ToolRequested(call="call_1", tool="read_file", arguments="{}"),
    ev.ApprovalRequested(id="ap", call="call_1", kind="command", subject="ls"),
    ev.QuestionAsked(id="qu", call="call_1", questions=()),
]


def envelopes(events: list[ev.AnyEvent], first: int = 1) -> list[ev.Envelope]:
    return [
        ev.Envelope(seq=seq, session="s", at=seq, event=event, turn="t1") for seq, event in enumerate(events, first)
    ]


def recovered(state: SessionState) -> list[ev.AnyEvent]:
    events: list[ev.AnyEvent] = []

    def emit(event: ev.AnyEvent) -> None:
        events.append(event)
        apply_event(state, ev.Envelope(seq=state.seq + 1, session="s", at=1, event=event, turn="t1"))

    close_open_turn(state, emit)
    return events


def test_every_prefix_recovers_to_a_valid_history_and_a_closed_turn():
    for length in range(len(EVENTS) + 1):
        state = fold_events(envelopes(EVENTS[:length]))
        recovered(state)
        assert state.current_turn is None
        assert not state.approvals
        assert not state.questions
        assert complete_results(state.messages) == state.messages


def test_a_mode_that_holds_for_one_turn_ends_with_it_wherever_that_was_cut_off_unless_the_user_chose_another():
    own = ev.ModeChanged(mode="plan")
    for length, choice, mode in ((2, (), "agent"), (3, (), "agent"), (3, (own,), "plan")):
        begun = [EVENTS[0], ev.ModeChanged(mode="ask", back_to="agent"), EVENTS[1]]
        state = fold_events(envelopes([*begun[:length], *choice]))
        assert state.mode == ("plan" if choice else "ask")
        recovered(state)
        assert (state.mode, state.mode_after_turn) == (mode, "")


def test_of_tasks_that_a_crash_cut_off_the_model_is_told_who_can_go_on_and_what_is_merged():
    tasks = tuple(ToolCall(id=name, name="task", arguments="{}") for name in ("one", "two", "three"))
    began = [ev.SubagentStarted(id=f"sub_{name}", agent="generalPurpose", call=name) for name in ("one", "two")]
    ended = [
        ev.SubagentFinished(id="sub_two", reason="done", said="Two is done."),
        ev.SubagentMerged(id="sub_two", paths=("a.txt",)),
    ]
    message_event = ev.MessageAppended(message=AssistantMessage(content="", tool_calls=tasks))
    state = fold_events(envelopes([*EVENTS[:4], message_event, *began, *ended]))
    recovered(state)
    contents = [message.content for message in state.messages if isinstance(message, ToolMessage)]
    assert contents[0].startswith("[generalPurpose sub_one did not finish: it was stopped.")
    assert contents[1:] == [
        "Two is done.\n\n[generalPurpose sub_two is done, and its changes are merged into yours.]",
        INTERRUPTED_RESULT,
    ]


def test_recovery_says_in_events_what_it_mends():
    state = fold_events(envelopes(EVENTS))
    events = recovered(state)
    assert [type(event).__name__ for event in events] == [
        "ToolFinished",
        "ApprovalResolved",
        "QuestionAnswered",
        "MessageAppended",
        "TurnFinished",
    ]
    assert state.messages[-1] == ToolMessage(call_id="call_1", content=INTERRUPTED_RESULT, is_error=True)
    assert state.turns[0].reason == "interrupted"
    assert state.turns[0].usage.prompt_tokens == 10
    assert recovered(state) == []


def test_a_result_lost_in_the_middle_is_mended_by_replacing_the_history():
    later: list[ev.AnyEvent] = [
        ev.TurnFinished(reason="done"),
        ev.TurnStarted(prompt="more", mode="agent", model="scripted/x"),
        ev.MessageAppended(message=UserMessage(content="more")),
    ]
    state = fold_events(envelopes(EVENTS + later))
    events = recovered(state)
    assert any(isinstance(event, ev.ContextCompacted) for event in events)
    assert [type(message).__name__ for message in state.messages] == [
        "UserMessage",
        "AssistantMessage",
        "ToolMessage",
        "UserMessage",
    ]


def test_lossy_and_repeated_events_change_nothing():
    state = fold_events(envelopes(EVENTS))
    before = (state.seq, list(state.messages), dict(state.turns[0].documents))
    apply_event(state, ev.Envelope(seq=state.seq, session="s", at=1, event=ev.DocumentDelta(id="d1", text="junk")))
    apply_event(state, envelopes(EVENTS)[3])
    assert (state.seq, list(state.messages), dict(state.turns[0].documents)) == before


def test_a_retried_step_voids_its_documents_and_compaction_replaces_messages():
    more: list[ev.AnyEvent] = [
        ev.StepRetried(step=1, attempt=1, delay_ms=1, message="cut", void_documents=("d1",)),
        ev.ContextCompacted(messages=(UserMessage(content="summary"),), before_tokens=9, after_tokens=3),
    ]
    state = fold_events(envelopes(EVENTS + more))
    assert state.turns[0].list_finished_documents() == []
    assert state.messages == [UserMessage(content="summary")]
    assert state.context_used == 3


def test_usage_adds_up_over_turns_and_an_unknown_price_stays_unknown():
    events: list[ev.AnyEvent] = []
    for cost in (0.25, None):
        events.append(ev.TurnStarted(prompt="x", mode="ask", model="m"))
        events.append(ev.TurnFinished(reason="done", usage=Usage(prompt_tokens=3, cost=cost)))
    state = fold_events(envelopes(events))
    assert (state.usage.prompt_tokens, state.usage.cost) == (6, 0.25)
    assert fold_events(envelopes(events[2:])).usage.cost is None


def test_reasoning_that_is_no_longer_taken_goes_and_what_was_said_stays():
    wire = WireAnswer(wire="messages", items=({"type": "thinking"},), binding="b")
    more: list[ev.AnyEvent] = [
        ev.MessageAppended(message=AssistantMessage(content="said", wire=wire)),
        ev.ReasoningDropped(answers=1),
        ev.MessageAppended(message=AssistantMessage(content="later", wire=wire)),
    ]
    state = fold_events(envelopes(EVENTS + more))
    assert state.messages[-2:] == [AssistantMessage(content="said"), AssistantMessage(content="later", wire=wire)]
