"""Reasoning that a model can no longer be sent, and answers that end in the middle."""

from __future__ import annotations

from msgspec.structs import replace

from core.config.settings import ContextSettings, Settings
from core.errors import ProviderError
from core.protocol import events as ev
from core.protocol.messages import AssistantMessage, Usage, UserMessage, WireAnswer
from core.providers.base import AnswerReport, RequestReport, StreamEnd, TextDelta, ToolCallDelta, UsageReport
from tests.support.agent_case import Case, says
from tests.support.history import faults

THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
REFUSED = ProviderError("The server no longer takes what the model thought.", code="reasoning_refused")


def thinks(text, *, dropped=0, call="", binding="b", finish="stop", **report):
    """An answer with reasoning; `call`: the tool that it calls."""
    items = [THOUGHT, {"type": "text", "text": text}]
    deltas = [TextDelta(text)] if text else []
    if call:
        items.append({"type": "tool_use", "id": "w0", "name": call, "input": {}})
        deltas.append(ToolCallDelta(0, id="w0", name=call, arguments="{}"))
    return [
        *deltas,
        UsageReport(Usage(prompt_tokens=12_000, completion_tokens=10, cached_tokens=2_000)),
        RequestReport(dropped_reasoning=dropped, **report),
        AnswerReport(WireAnswer(wire="messages", items=tuple(items), binding=binding)),
        StreamEnd("tool_calls" if call else finish),
    ]


def told(case):
    return [f"{notice.message} {notice.hint}" for notice in case.of(ev.Notice)]


def wires(messages):
    return [message.wire for message in messages if isinstance(message, AssistantMessage)]


async def test_an_answer_is_kept_as_it_came_with_the_server_s_id_of_its_call(tmp_path):
    case = Case(tmp_path, thinks("One.", call="list_dir"), thinks("Two."))
    await case.turn()
    first, second = (message for message in case.messages if isinstance(message, AssistantMessage))
    assert first.wire.items[0] == THOUGHT
    assert first.tool_calls[0].wire_id == "w0" != first.tool_calls[0].id
    assert second.wire.binding == "b"


async def test_what_became_void_is_told_once_for_each_cause_with_what_it_cost(tmp_path):
    case = Case(
        tmp_path,
        thinks("One."),
        thinks("Two.", call="list_dir", dropped=1),
        thinks("Three.", dropped=1),
        thinks("Four.", dropped=1),
        thinks("Five.", dropped=2),
    )
    await case.turn()
    assert told(case) == []
    await case.turn()
    await case.turn()
    [first] = told(case)
    assert "The reasoning of 1 earlier answer is no longer sent: the conversation before it has" in first
    assert "About 10,000 tokens were sent uncached." in first
    case.emit(ev.ModelChanged(model="directed/other"))
    case.session.routes.current = replace(case.session.routes.current, id="directed/other")
    await case.turn()
    assert len(told(case)) == 2
    assert "reasoning of 2 earlier answers is no longer sent: it came from another model" in told(case)[1]


async def test_it_is_not_told_again_by_a_session_that_is_resumed(tmp_path):
    case = Case(tmp_path, thinks("One.", dropped=3, cache_miss="tools changed"))
    await case.turn()
    assert (case.state.dropped_reasoning_count, case.state.cache_miss) == (3, "tools changed")
    measured = case.of(ev.ContextMeasured)[-1]
    assert (measured.dropped_reasoning, measured.cache_miss) == (3, "tools changed")


async def test_reasoning_that_the_api_refuses_is_given_up_and_the_step_tried_once_more(tmp_path):
    case = Case(tmp_path, thinks("One.", call="list_dir"), thinks("Two."), [REFUSED], says("Three."))
    await case.turn()
    finished = await case.turn("And now?")
    assert finished.reason == "done"
    [dropped] = case.of(ev.ReasoningDropped)
    assert dropped.answers == 2
    [retried] = case.of(ev.StepRetried)
    assert retried.delay_ms == 0
    [notice] = told(case)
    assert "The reasoning of 2 earlier answers was refused by directed/m and is no longer sent." in notice
    before, after = case.model.requests[-2:]
    assert all(wires(before.messages))
    assert wires(after.messages) == [None, None]
    assert [message.content for message in after.messages] == [message.content for message in before.messages]
    assert faults(case.messages) == []


async def test_a_refusal_that_nothing_can_be_done_about_ends_the_turn(tmp_path):
    case = Case(tmp_path, thinks("One."), [REFUSED], [REFUSED])
    await case.turn()
    finished = await case.turn()
    assert (finished.reason, len(case.model.requests), len(case.of(ev.ReasoningDropped))) == ("failed", 3, 1)
    other = Case(tmp_path, says("One."), [REFUSED])
    await other.turn()
    assert ((await other.turn()).reason, other.of(ev.ReasoningDropped)) == ("failed", [])


async def test_a_compaction_gives_up_what_is_bound_and_says_so(tmp_path):
    case = Case(tmp_path, says("Notes."), says("Done."), settings=Settings(context=ContextSettings(window=20_000)))
    case.emit(ev.MessageAppended(message=UserMessage(content="My wish")))
    for number in range(12):
        text = f"Step {number}." + "x" * 4_000
        answer = WireAnswer(wire="messages", items=(THOUGHT, {"type": "text", "text": text}), binding="b")
        loose = WireAnswer(wire="chat", items=({"role": "assistant", "content": text, "reasoning_content": "Hm."},))
        for wire in (answer, loose):
            message = AssistantMessage(content=text, model="directed/m", wire=wire)
            case.emit(ev.MessageAppended(message=message))
    await case.turn("Now this")
    [compacted] = case.of(ev.ContextCompacted)
    remaining_wires = [
        assistant_message.wire
        for assistant_message in compacted.messages
        if isinstance(assistant_message, AssistantMessage) and assistant_message.wire is not None
    ]
    assert remaining_wires
    assert {wire_answer.wire for wire_answer in remaining_wires} == {"chat"}
    [notice] = [candidate for candidate in told(case) if "shortened" in candidate]
    assert "The reasoning of " in notice
    fresh = int(notice.split("About ")[1].split(" tokens")[0].replace(",", ""))
    assert 0 < fresh < compacted.after_tokens  # the system prompt and the tools are not


async def test_what_a_provider_has_to_say_of_a_request_is_told(tmp_path):
    case = Case(tmp_path, thinks("x", notice="It takes no effort."))
    await case.turn()
    assert [notice.message for notice in case.of(ev.Notice)] == ["It takes no effort."]


async def test_a_paused_answer_is_sent_back_and_gone_on_with(tmp_path):
    case = Case(tmp_path, thinks("", finish="paused"), thinks("Done."))
    finished = await case.turn()
    assert (finished.reason, finished.steps) == ("done", 2)
    sent = case.model.requests[1].messages
    assert [message.wire is not None for message in sent if isinstance(message, AssistantMessage)] == [True]
    assert isinstance(sent[-1], AssistantMessage)


async def test_a_server_that_pauses_for_ever_is_stopped(tmp_path):
    case = Case(tmp_path, *(thinks("", finish="paused") for _ in range(20)))
    finished = await case.turn()
    assert (finished.reason, finished.steps) == ("failed", 9)
    assert "paused 9 times" in finished.message


async def test_a_window_that_was_full_before_the_answer_was_whole_is_made_room_in(tmp_path):
    case = Case(tmp_path, thinks("Half of", finish="context_full"), says("Notes."), says("Whole."))
    for number in range(40):
        case.emit(ev.MessageAppended(message=UserMessage(content=f"w{number}", origin="program")))
        case.emit(ev.MessageAppended(message=AssistantMessage(content="x" * 4_000)))
    finished = await case.turn("Go")
    assert finished.reason == "done"
    [compacted] = case.of(ev.ContextCompacted)
    assert compacted.after_tokens < compacted.before_tokens
    assert any("length limit" in message.content for message in case.model.requests[-1].messages[-3:])


async def test_a_window_that_no_room_can_be_made_in_is_said_to_be_too_small(tmp_path):
    case = Case(tmp_path, thinks("Half of", finish="context_full"))
    finished = await case.turn("Go")
    assert finished.reason == "failed"
    assert "Shortening the conversation was not enough" in finished.message


async def test_a_call_that_the_full_window_cut_is_not_run(tmp_path):
    cut = [*thinks("Look.", call="list_dir")[:-1], StreamEnd("context_full")]
    case = Case(tmp_path, cut, says("Notes."), says("Done."))
    case.emit(ev.MessageAppended(message=AssistantMessage(content="x" * 90_000)))
    assert (await case.turn("Go")).reason == "done"
    [finished] = case.of(ev.ToolFinished)
    assert finished.status == "failed"
    assert len(case.of(ev.ContextCompacted)) == 1
