"""The loop: a turn from its prompt to its end, whatever happens on the way."""

from __future__ import annotations

import asyncio
import itertools

import msgspec
import pytest

from core.agent.turn import model_calls
from core.config.settings import Settings, TurnLimits
from core.errors import ContextOverflow, ProviderError
from core.ids import new_id
from core.protocol import events as ev
from core.protocol.documents import ToolCallDocument
from core.protocol.messages import AssistantMessage, ToolMessage, Usage, UserMessage
from core.providers.base import ReasoningDelta, StreamEnd, TextDelta, ToolCallDelta, UsageReport
from tests.support.agent_case import Case, calls, says
from tests.support.history import faults
from tests.support.work import counted


@pytest.fixture
def no_pause(monkeypatch):
    monkeypatch.setattr(model_calls, "FIRST_PAUSE", 0.0)


async def test_a_turn_reads_proposes_and_answers(tmp_path):
    case = Case(
        tmp_path,
        calls(("read_file", {"target_file": "a.py"}), text="Let me look."),
        calls(("search_replace", {"file_path": "a.py", "old_string": "1", "new_string": "2"})),
        says("I propose to make it 2."),
    )
    (case.project / "a.py").write_text("x = 1\n")
    finished = await case.turn("Make it 2")
    assert (finished.reason, finished.steps) == ("done", 3)
    assert finished.usage.prompt_tokens == 300
    assert (case.project / "a.py").read_text() == "x = 1\n"
    assert case.shadow.read("a.py") == b"x = 2\n"
    assert faults(case.messages) == []
    kinds = [event.document.__struct_config__.tag for event in case.of(ev.DocumentFinished)]
    assert kinds == ["text", "tool_call", "file_edit", "text"]
    assert [event.document.sequence for event in case.of(ev.DocumentFinished)] == [1, 2, 3, 4]
    assert isinstance(case.events[-1], ev.TurnFinished)


async def test_each_request_begins_with_the_bytes_of_the_one_before(tmp_path):
    case = Case(tmp_path, calls(("list_dir", {})), calls(("grep", {"pattern": "x"})), says("One."), says("Two."))
    (case.project / "a.py").write_text("x = 1\n")
    await case.turn("First")
    (case.project / "AGENTS.md").write_text("A rule that came too late for this session.")
    case.emit(ev.ModeChanged(mode="plan"))
    await case.turn("Second", ["a.py"])
    bodies = [
        msgspec.json.encode((request.system, request.tools, request.messages))[:-2] for request in case.model.requests
    ]
    assert len(bodies) == 4
    for earlier, later in itertools.pairwise(bodies):
        assert later.startswith(earlier)


async def test_reasoning_text_and_code_become_documents(tmp_path):
    case = Case(
        tmp_path,
        [ReasoningDelta("Hm"), ReasoningDelta("", "sig"), TextDelta("See\n```1:1:a.py\nx"), TextDelta("\n```\n"),
         StreamEnd("stop")],
    )  # fmt: skip
    await case.turn()
    finished = [event.document for event in case.of(ev.DocumentFinished)]
    assert [(document.__struct_config__.tag, document.content) for document in finished] == [
        ("reasoning", "Hm"), ("text", "See"), ("code_reference", "x")
    ]  # fmt: skip
    assert finished[2].metadata.language == "python"
    message = case.messages[-1]
    assert isinstance(message, AssistantMessage)
    assert (message.reasoning[0].text, message.reasoning[0].signature) == ("Hm", "sig")


@pytest.mark.parametrize(
    ("limits", "word"),
    [
        (TurnLimits(max_steps=2), "max_steps"),
        (TurnLimits(max_tokens=150), "max_tokens"),
        (TurnLimits(max_cost=0.5), "max_cost"),
    ],
)
async def test_v8_a_limit_ends_the_turn_cleanly(tmp_path, limits, word):
    case = Case(tmp_path, *[calls(("list_dir", {})) for _ in range(9)], settings=Settings(limits=limits))
    case.session.routes.price = lambda _model, _usage: 0.3
    finished = await case.turn()
    assert finished.reason == "limit"
    assert word in finished.message
    assert finished.steps == 2
    assert faults(case.messages) == []


async def test_v1_a_retryable_fault_is_tried_again_visibly(tmp_path, no_pause):
    case = Case(
        tmp_path,
        [TextDelta("Hal"), ProviderError("Overloaded.", retryable=True)],
        [ProviderError("Overloaded.", retryable=True, retry_after=0.0)],
        says("Hello"),
    )
    finished = await case.turn()
    retried = case.of(ev.StepRetried)
    assert finished.reason == "done"
    assert [event.attempt for event in retried] == [2, 3]
    assert len(retried[0].void_documents) == 1
    assert [message.content for message in case.messages if isinstance(message, AssistantMessage)] == ["Hello"]


async def test_v1_a_wrong_key_is_never_tried_again(tmp_path):
    case = Case(tmp_path, [ProviderError("Wrong key.", code="auth", hint="Check it.")])
    finished = await case.turn()
    assert (finished.reason, finished.message) == ("failed", "Wrong key. Check it.")
    assert case.of(ev.StepRetried) == []
    assert case.of(ev.DocumentFinished)[-1].document.metadata.error_code == "AUTH"


async def test_v1_a_pause_between_attempts_can_be_interrupted(tmp_path):
    case = Case(tmp_path, [ProviderError("Later.", retryable=True, retry_after=80.0)])
    case.on_event = lambda event: isinstance(event, ev.StepRetried) and case.session.interrupt()
    assert (await case.turn()).reason == "interrupted"
    assert [event.delay_ms for event in case.of(ev.StepRetried)] == [80_000]
    assert len(case.model.requests) == 1


async def test_v2_a_stream_that_was_cut_runs_no_partial_call(tmp_path, no_pause):
    cut = [ToolCallDelta(0, id="a", name="write"), ToolCallDelta(0, arguments='{"file_path": "a", "contents": "x')]
    case = Case(tmp_path, cut, says("Fine."))
    assert (await case.turn()).reason == "done"
    assert case.of(ev.StepRetried)[0].message == "The model's answer was cut off."
    assert case.of(ev.ToolRequested) == []
    assert case.state.changes == {}


async def test_what_was_said_before_a_final_fault_stays_and_is_marked(tmp_path):
    case = Case(tmp_path, [TextDelta("Half an ans"), ProviderError("Gone.")])
    await case.turn()
    message = case.messages[-1]
    assert isinstance(message, AssistantMessage)
    assert (message.content, message.interrupted) == ("Half an ans", True)


async def test_v4_duplicate_and_missing_ids_become_unique(tmp_path):
    step = [
        ToolCallDelta(0, id="x", name="list_dir"), ToolCallDelta(0, arguments="{}"),
        ToolCallDelta(1, id="x", name="list_dir"), ToolCallDelta(1, arguments="{}"),
        ToolCallDelta(2, name="list_dir"), ToolCallDelta(2, arguments="{}"),
        ToolCallDelta(0, id="y", name="list_dir"), ToolCallDelta(0, arguments="{}"),
        ToolCallDelta(2, name="list_dir", arguments="{}"),
        StreamEnd("tool_calls"),
    ]  # fmt: skip
    case = Case(tmp_path, step, says("Done."))
    await case.turn()
    assert len(case.results()) == 5
    assert [event.status for event in case.of(ev.ToolFinished)] == ["completed"] * 5
    assert faults(case.messages) == []


async def test_v5_a_call_that_the_length_limit_cut_is_truncated_not_malformed(tmp_path):
    arguments = '{"file_path": "a.py", "contents": "x = 1'
    case = Case(tmp_path, calls(("list_dir", {}), ("write", arguments), reason="length"), says("Smaller."))
    await case.turn()
    assert [event.status for event in case.of(ev.ToolFinished)] == ["completed", "failed"]
    assert "length limit" in case.results()[1]
    assert faults(case.messages) == []


async def test_an_empty_answer_is_asked_again_and_then_said_plainly(tmp_path):
    empty = [StreamEnd("stop")]
    case = Case(tmp_path, empty, empty, empty)
    finished = await case.turn()
    assert finished.reason == "failed"
    assert "returned nothing, 3 times in a row" in finished.message
    assert faults(case.messages) == []


async def test_v7_an_overflow_compacts_once_and_then_stops(tmp_path):
    case = Case(tmp_path, [ContextOverflow("Too long.")], says("Notes."), [ContextOverflow("Still too long.")])
    case.session.routes.current = msgspec.structs.replace(case.session.routes.current, window=0)
    case.emit(ev.MessageAppended(message=UserMessage(content="Earlier")))
    for number in range(8):
        case.emit(ev.MessageAppended(message=AssistantMessage(content=f"{number} " + "word " * 20_000)))
    finished = await case.turn("Now")
    assert finished.reason == "failed"
    assert "Shortening the conversation was not enough" in finished.message
    assert len(case.of(ev.ContextCompacted)) == 1
    assert len(case.model.requests) == 3
    assert faults(case.messages) == []


async def test_v8_the_same_failing_call_is_warned_about_and_then_stops_the_turn(tmp_path):
    missing = calls(("read_file", {"target_file": "nowhere.py"}))
    case = Case(tmp_path, *[missing] * 9)
    finished = await case.turn()
    assert (finished.reason, finished.steps) == ("failed", 3)
    assert "same failing call" in finished.message
    assert "same call that failed" in case.results()[1]
    assert faults(case.messages) == []


@pytest.mark.parametrize("arguments", ["", "{", "[]", "null", '{"a": 1}', '{"target_file": 3}', "{" * 20_000, "\x00"])
async def test_v3_wrong_arguments_are_answered_and_stop_after_two_repairs(tmp_path, arguments):
    steps = [calls(("read_file", arguments + " " * number)) for number in range(9)]
    case = Case(tmp_path, *steps)
    finished = await case.turn()
    assert (finished.reason, finished.steps) == ("failed", 3)
    assert "3 times in a row" in finished.message
    assert {event.status for event in case.of(ev.ToolFinished)} == {"failed"}
    assert faults(case.messages) == []


HOSTILE_NAMES = ["", "nope", "../../etc/passwd", "write\x1b[31m", "x" * 100_000, "__class__", "é"]


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=range(len(HOSTILE_NAMES)))
async def test_hostile_tool_names_are_answered(tmp_path, name):
    case = Case(tmp_path, calls((name, {"a": 1}), ("list_dir", {})), says("Fine."))
    finished = await case.turn()
    assert finished.reason == "done"
    assert [event.status for event in case.of(ev.ToolFinished)] == ["failed", "completed"]
    assert "There is no tool" in case.results()[0]
    assert len(case.results()[0]) < 600


async def test_a_message_given_meanwhile_reaches_the_next_step(tmp_path):
    case = Case(
        tmp_path,
        [lambda: case.emit(ev.TurnSteered(text="Use tabs", id=new_id("steer"))), *calls(("list_dir", {}))],
        says("Tabs."),
    )
    await case.turn()
    last = case.model.requests[1].messages[-1]
    assert isinstance(last, UserMessage)
    assert "<user_query>\nUse tabs\n</user_query>" in last.content


async def test_a_message_given_during_the_last_step_is_not_lost(tmp_path):
    case = Case(
        tmp_path,
        [lambda: case.emit(ev.TurnSteered(text="And more", id=new_id("steer"))), *says("Done.")],
        says("More."),
    )
    finished = await case.turn()
    assert finished.steps == 2


async def test_verdicts_reach_the_model_once_with_their_reason(tmp_path):
    write = calls(("write", {"file_path": "a.py", "contents": "x = 1\n"}))
    case = Case(tmp_path, write, says("Proposed."), says("I see."), says("Yes."))
    await case.turn()
    case.shadow.resolve("a.py", verdict="reject", reason="Use y")
    await case.turn("Go on")
    await case.turn("Again")
    reports = [m.content for m in case.messages if isinstance(m, UserMessage) and "rejected: a.py" in m.content]
    assert len(reports) == 1
    assert "Reason: Use y" in reports[0]
    assert len(case.of(ev.VerdictsReported)) == 1


async def test_a_verdict_taken_back_is_told_if_the_model_knew_of_it_and_only_once(tmp_path):
    write = calls(("write", {"file_path": "a.py", "contents": "x = 1\n"}))
    case = Case(tmp_path, write, says("Proposed."), says("I see."), says("Back."), says("Yes."))
    await case.turn()
    case.shadow.resolve("a.py", verdict="reject")
    case.shadow.undo()
    case.shadow.resolve("a.py", verdict="reject")
    await case.turn("Go on")
    case.shadow.undo()
    await case.turn("And now")
    await case.turn("Again")
    reports = [
        m.content for m in case.messages if isinstance(m, UserMessage) and "no longer rejected: a.py" in m.content
    ]
    assert len(reports) == 1
    assert "x = 1" in reports[0]
    assert [len(event.ids) for event in case.of(ev.VerdictsReported)] == [1, 1]


async def test_a_new_mode_is_told_at_the_next_step_and_only_once(tmp_path):
    switch = [lambda: case.emit(ev.ModeChanged(mode="plan")), *calls(("list_dir", {}))]
    case = Case(tmp_path, switch, calls(("list_dir", {})), says("Done."))
    await case.turn()
    notices = [
        m.content for m in case.messages if isinstance(m, UserMessage) and "changed from agent to plan" in m.content
    ]
    assert len(notices) == 1
    assert isinstance(case.model.requests[1].messages[-1], UserMessage)


async def test_a_refusal_of_the_model_fails_the_turn(tmp_path):
    case = Case(tmp_path, [StreamEnd("refused")])
    assert "refused" in (await case.turn()).message


async def test_a_fault_of_ours_is_said_plainly_without_a_traceback(tmp_path):
    case = Case(tmp_path, [ZeroDivisionError("secret detail")])
    finished = await case.turn()
    assert finished.reason == "failed"
    assert "ZeroDivisionError" in finished.message
    assert "secret" not in finished.message


async def test_cancelling_the_turn_from_outside_ends_it_and_is_passed_on(tmp_path):
    waiting = asyncio.Event()
    case = Case(tmp_path, [TextDelta("Hm"), waiting])
    task = asyncio.create_task(case.turn())
    reached = asyncio.Event()
    case.on_event = lambda event: isinstance(event, ev.DocumentDelta) and reached.set()
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert case.of(ev.TurnFinished)[0].reason == "interrupted"


async def test_steps_cost_the_engine_little_however_many_there_were(tmp_path):
    case = Case(tmp_path)
    for number in range(60):
        (case.project / f"d{number}").mkdir()
    spent = []
    for count in (20, 20, 60):
        case.model.steps = [calls(("list_dir", {"relative_workspace_path": f"d{n}"})) for n in range(count)]
        with counted() as work:
            finished = await case.turn()
        assert finished.steps == count + 1
        spent.append(work.lines / count)
    _warm_up, few, many = spent
    assert many < 1.5 * few
    assert many < 8_000


async def test_costs_and_tokens_add_up(tmp_path):
    usage = Usage(prompt_tokens=10, completion_tokens=5, cached_tokens=3, reasoning_tokens=2)
    step = [TextDelta("Hi"), UsageReport(Usage(prompt_tokens=9)), UsageReport(usage), StreamEnd("stop")]
    case = Case(tmp_path, step)
    case.session.routes.price = lambda _model, _usage: 0.25
    finished = await case.turn()
    assert finished.usage == Usage(
        prompt_tokens=10, completion_tokens=5, cached_tokens=3, reasoning_tokens=2, cost=0.25
    )
    assert case.of(ev.ContextMeasured)[-1].window == 100_000


async def test_a_failed_tool_shows_in_its_document(tmp_path):
    case = Case(tmp_path, calls(("read_file", {"target_file": "nowhere.py"})), says("Missing."))
    await case.turn()
    document = case.of(ev.DocumentFinished)[0].document
    assert isinstance(document, ToolCallDocument)
    assert document.metadata.result is not None
    assert document.metadata.result.status == "error"
    assert [m.is_error for m in case.messages if isinstance(m, ToolMessage)] == [True]


@pytest.mark.parametrize("limit", ["max_tokens", "max_cost"])
async def test_n16a_a_single_step_that_used_more_than_there_was_ends_at_the_limit(tmp_path, limit):
    value = 100 if limit == "max_tokens" else 0.05
    settings = Settings(limits=TurnLimits(**{limit: value}))
    used = Usage(prompt_tokens=100, completion_tokens=20, cost=0.06)
    case = Case(tmp_path, says("All of it.", usage=used), settings=settings)
    finished = await case.turn()
    assert (finished.reason, finished.steps) == ("limit", 1)
    assert limit in finished.message
    assert case.messages[-1].content == "All of it."


async def test_n16a_a_turn_that_used_just_what_there_was_is_done(tmp_path):
    settings = Settings(limits=TurnLimits(max_tokens=120, max_steps=1))
    case = Case(tmp_path, says("Done.", usage=Usage(prompt_tokens=100, completion_tokens=20)), settings=settings)
    assert (await case.turn()).reason == "done"
