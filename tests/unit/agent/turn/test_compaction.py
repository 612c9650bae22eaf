"""Making room: what must stay stays word for word, and the history remains valid."""

from __future__ import annotations

import msgspec
import pytest

from core.agent.turn.compaction import KEPT_CHARS, MIN_DROPPED, build_compactor
from core.config.settings import ContextSettings, Settings
from core.errors import ProviderError
from core.protocol import events as ev
from core.protocol.documents import Todo
from core.protocol.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage, WireAnswer
from tests.support.agent_case import Case, Step, calls, says
from tests.support.history import faults


def filled(
    tmp_path, *steps: Step, steps_before: int = 12, size: int = 12_000, window: int = 20_000, asked: int = 0
) -> Case:
    """A session whose history of `steps_before` large steps is more than the window holds. `asked`: bytes of a call; a
    result is never so large that it could be dropped by itself."""
    asked, size = asked + max(size - MIN_DROPPED, 0), min(size, MIN_DROPPED)
    case = Case(tmp_path, *steps, settings=Settings(context=ContextSettings(window=window)))
    case.emit(ev.MessageAppended(message=UserMessage(content="<user_query>\nMy first wish\n</user_query>")))
    for number in range(steps_before):
        call = ToolCall(id=f"c{number}", name="read_file", arguments=f'{{"target_file": "{"d" * asked}f{number}.py"}}')
        case.emit(ev.MessageAppended(message=AssistantMessage(content=f"Step {number}.", tool_calls=(call,))))
        case.emit(ev.MessageAppended(message=ToolMessage(call_id=f"c{number}", content="x" * size)))
        if number == 5:
            case.emit(ev.MessageAppended(message=UserMessage(content="<user_query>\nAnd tabs\n</user_query>")))
    case.emit(ev.TodoChanged(todos=(Todo(id="a", content="Do the thing", status="in_progress"),)))
    return case


async def test_a_full_window_is_compacted_before_the_step(tmp_path):
    case = filled(tmp_path, says("Notes: it was f3."), says("Done."))
    case.shadow.write("new.py", b"x = 1\n")
    assert (await case.turn("Now this")).reason == "done"
    [compacted] = case.of(ev.ContextCompacted)
    assert compacted.after_tokens < compacted.before_tokens / 2
    sent = case.model.requests[1].messages
    text = "\n".join(str(message) for message in sent)
    for phrase in ("My first wish", "And tabs", "Now this", "Notes: it was f3.", "Do the thing", "new.py", "Step 11."):
        assert phrase in text
    assert "Step 0." not in text
    assert faults(sent) == []
    assert case.model.requests[0].tools == ()


@pytest.mark.parametrize("window", range(9_000, 33_000, 3_000))  # bytes that stay: the border is in a call or a result
async def test_the_history_is_never_cut_between_a_call_and_its_result(tmp_path, window):
    case = filled(tmp_path, says("Notes."), size=6_000, window=window, asked=6_000)
    await build_compactor(case.session).compact(1_000)
    [compacted] = case.of(ev.ContextCompacted)
    assert faults(compacted.messages) == []
    calls_kept = [message for message in compacted.messages if isinstance(message, AssistantMessage)]
    assert 0 < len(calls_kept) < 12
    assert len([tool_message for tool_message in compacted.messages if isinstance(tool_message, ToolMessage)]) == len(
        calls_kept
    )


async def test_when_no_model_writes_notes_they_are_made_of_the_steps(tmp_path):
    case = filled(tmp_path, [ProviderError("No.")], says("Done."))
    assert (await case.turn("Now this")).reason == "done"
    text = str(case.model.requests[1].messages)
    assert "Earlier steps" in text
    assert "f0.py" in text
    assert faults(case.messages) == []


def with_results(tmp_path, *steps: Step, sizes: tuple[int, ...]) -> Case:
    """A session with a result of each size, in characters, of one step each."""
    case = Case(tmp_path, *steps, settings=Settings(context=ContextSettings(window=20_000)))
    case.emit(ev.MessageAppended(message=UserMessage(content="<user_query>\nMy first wish\n</user_query>")))
    for number, size in enumerate(sizes):
        call = ToolCall(id=f"c{number}", name="run_terminal_cmd", arguments="{}")
        case.emit(ev.MessageAppended(message=AssistantMessage(content=f"Step {number}.", tool_calls=(call,))))
        case.emit(ev.MessageAppended(message=ToolMessage(call_id=f"c{number}", content=f"{number}" * size)))
    return case


async def test_large_results_of_earlier_steps_make_room_before_the_history_is_rewritten(tmp_path):
    case = with_results(tmp_path, says("Done."), sizes=(40_000, 30_000, 300, 8_000))
    assert (await case.turn("Now")).reason == "done"
    assert case.of(ev.ContextCompacted) == []
    results = [message.content for message in case.messages if isinstance(message, ToolMessage)]
    assert [len(text) - KEPT_CHARS < 200 for text in results] == [True, True, True, False]
    assert "dropped to make room; read_file output:c0.txt has all of it" in results[0]
    assert (case.session.terminal.host.directory / "outputs" / "c1.txt").read_text() == "1" * 30_000
    assert results[2:] == ["2" * 300, "3" * 8_000]
    assert "My first wish" in str(case.model.requests[0].messages)
    assert faults(case.messages) == []


async def test_a_result_that_names_its_file_is_not_written_again(tmp_path):
    case = with_results(tmp_path, says("Done."), sizes=(70_000,))
    message = ToolMessage(call_id="c9", content="y" * 60_000 + "read_file output:c_7.txt from offset 3")
    case.emit(
        ev.MessageAppended(message=AssistantMessage(tool_calls=(ToolCall(id="c9", name="grep", arguments="{}"),)))
    )
    case.emit(ev.MessageAppended(message=message))
    await case.turn("Now")
    assert "read_file output:c_7.txt has all of it" in str(case.messages)
    assert not (case.session.terminal.host.directory / "outputs" / "c9.txt").exists()


async def test_one_step_too_large_for_the_window_is_cut_short(tmp_path):
    case = with_results(tmp_path, says("Notes."), sizes=(120_000,))
    await build_compactor(case.session).compact(1_000)
    assert case.of(ev.ContextCompacted)[0].after_tokens < 17_000
    assert faults(case.messages) == []


async def test_user_messages_that_alone_fill_the_window_lose_what_was_attached(tmp_path):
    case = filled(tmp_path, says("Notes."), says("Done."))
    attached = f"<attached_files>\n{'y' * 60_000}\n</attached_files>\n\n<user_query>\nKeep me\n</user_query>"
    case.emit(ev.MessageAppended(message=UserMessage(content=attached)))
    for number in range(3):
        call = ToolCall(id=f"d{number}", name="read_file", arguments=f'{{"target_file": "{"x" * 12_000}"}}')
        case.emit(ev.MessageAppended(message=AssistantMessage(tool_calls=(call,))))
        case.emit(ev.MessageAppended(message=ToolMessage(call_id=f"d{number}", content="x")))
    await case.turn("Now")
    text = str(case.messages)
    assert "Keep me" in text
    assert "yyyyy" not in text
    assert faults(case.messages) == []


async def test_compaction_that_does_not_help_is_not_tried_at_every_step(tmp_path):
    case = filled(tmp_path, says("Notes."), *[calls(("list_dir", {}))] * 6, says("Done."), window=3_000)
    await case.turn("Go")
    assert len([request for request in case.model.requests if not request.tools]) <= 2


async def test_the_small_model_writes_the_notes_when_there_is_one(tmp_path):
    case = filled(tmp_path, says("Done."))
    other = Case(tmp_path / "other" if not (tmp_path / "other").mkdir() else tmp_path, says("Small notes."))
    case.session.routes.small = (
        msgspec.structs.replace(case.session.routes.current, provider=other.model, model="small"),
    )
    await case.turn("Go")
    assert other.model.requests[0].model == "small"
    assert "Small notes." in str(case.messages)


@pytest.mark.parametrize("window", [0, 1_000_000])
async def test_room_enough_or_unknown_is_left_alone(tmp_path, window):
    case = filled(tmp_path, says("Done."), window=window)
    case.session.routes.current = msgspec.structs.replace(case.session.routes.current, window=window)
    await case.turn("Go")
    assert case.of(ev.ContextCompacted) == []


async def test_a_short_history_is_left_alone_with_all_that_was_thought(tmp_path):
    case = filled(tmp_path, steps_before=2, size=4_000, window=100_000)
    wire = WireAnswer(wire="messages", items=({"type": "thinking", "thinking": "Hm.", "signature": "s"},), binding="b")
    case.emit(ev.MessageAppended(message=AssistantMessage(content="So.", wire=wire)))
    before = list(case.messages)
    await build_compactor(case.session).compact(1_000)
    assert case.of(ev.ContextCompacted) == []
    assert case.messages == before
