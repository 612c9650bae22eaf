"""Making room: what must stay stays word for word, and the history remains valid."""

from __future__ import annotations

import msgspec
import pytest

from core.agent.turn.compaction import KEPT_CHARS, MIN_DROPPED, build_compactor, count_words
from core.config.settings import ContextSettings, Settings
from core.errors import ProviderError
from core.protocol import events as ev
from core.protocol.documents import Todo
from core.protocol.messages import AssistantMessage, ToolCall, ToolMessage, Usage, UserMessage, WireAnswer
from core.providers.base import CompactedHistory, StreamEnd
from core.providers.catalog.capabilities import Capabilities
from tests.support.agent_case import Case, DirectedModel, Step, calls, played, says
from tests.support.history import faults


def filled(
    tmp_path,
    *steps: Step,
    steps_before: int = 12,
    size: int = 12_000,
    window: int = 20_000,
    asked: int = 0,
    compactor: str = "session",
) -> Case:
    """A session whose history of `steps_before` large steps is more than the window holds. `asked`: bytes of a call; a
    result is never so large that it could be dropped by itself."""
    asked, size = asked + max(size - MIN_DROPPED, 0), min(size, MIN_DROPPED)
    case = Case(tmp_path, *steps, settings=Settings(context=ContextSettings(window=window, compactor=compactor)))
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


@pytest.mark.parametrize(("compactor", "asked"), [("session", "directed"), ("small", "small"), ("server", "directed")])
async def test_the_notes_are_written_by_the_session_s_model_or_by_the_small_one_if_the_user_says_so(
    tmp_path, compactor, asked
):
    notes = [says("Notes of directed.")] if asked == "directed" else []
    case = filled(tmp_path, *notes, says("Done."), compactor=compactor)
    other = Case(tmp_path / "other" if not (tmp_path / "other").mkdir() else tmp_path, says("Notes of small."))
    case.session.routes.small = (
        msgspec.structs.replace(case.session.routes.current, provider=other.model, model="small"),
    )
    await case.turn("Go")
    assert len(other.model.requests) == (asked == "small")
    assert f"Notes of {asked}." in str(case.messages)
    told = [notice for notice in case.of(ev.Notice) if "makes no summaries: the model writes notes" in notice.message]
    assert len(told) == (compactor == "server")


@pytest.mark.parametrize(
    ("window", "words"), [(8_000, 900), (100_000, 900), (272_000, 1_210), (550_000, 1_700), (2_000_000, 2_500)]
)
def test_notes_may_be_longer_in_a_larger_window(window, words):
    assert count_words(window) == words


async def test_what_the_user_forbids_stays_word_for_word_though_long_messages_lose_their_middles(tmp_path):
    case = filled(tmp_path, says("Notes."), says("Done."))
    rules = ("Never touch the file legacy/tax.py.", "Fasse die Tests nicht an!", "不要改动配置。")
    filler = "This is a plain remark about nothing. " * 2_000
    message = f"<user_query>\n{filler} {rules[0]} {filler} {rules[1]} {rules[2]} {filler}\n</user_query>"
    case.emit(ev.MessageAppended(message=UserMessage(content=message)))
    for number in range(3):
        call = ToolCall(id=f"d{number}", name="read_file", arguments="{}")
        case.emit(ev.MessageAppended(message=AssistantMessage(tool_calls=(call,))))
        case.emit(ev.MessageAppended(message=ToolMessage(call_id=f"d{number}", content="x" * 12_000)))
    await case.turn("Now")
    text = str(case.messages)
    assert [rule for rule in rules if rule not in text] == []
    assert "What the user has forbidden, in the user's own words:" in text


class ReadingModel(DirectedModel):
    """A model that reads the same files again and again, and writes long notes."""

    async def stream(self, request):
        self.requests.append(request)
        reading = [
            *calls(*[("read_file", {"target_file": f"{n}.txt"}) for n in range(7)])[:-2],
            StreamEnd("tool_calls"),
        ]
        async for delta in played(reading if request.tools else says("- a note. " * 1_500, usage=Usage())):
            yield delta


async def test_compactions_that_free_nothing_end_the_turn_with_a_reason(tmp_path):
    case = filled(tmp_path)
    case.session.routes.current = msgspec.structs.replace(case.session.routes.current, provider=ReadingModel([]))
    for number in range(7):  # each result is too small to be dropped by itself
        case.shadow.write(f"{number}.txt", b"a line of this file that is long enough to count\n" * 60)
    wish = f"<user_query>\n{'My wishes are many. ' * 1_500}\n</user_query>"
    case.emit(ev.MessageAppended(message=UserMessage(content=wish)))
    finished = await case.turn("Go")
    assert finished.reason == "failed"
    assert "The conversation was compacted 3 times within" in finished.message
    assert "/new" in finished.message
    assert len(case.of(ev.ContextCompacted)) == 3


class SummarisingModel(DirectedModel):
    """A model whose API summarises: `is_first` as at Anthropic, else as at OpenAI."""

    is_first = True
    fails = False

    async def compact(self, request):
        self.requests.append(request)
        if self.fails:
            raise ProviderError("It is too busy.")
        text = "The summary." if self.is_first else ""
        items = ({"type": "compaction", "content": "c2Vj"},)
        return CompactedHistory(items=items, text=text, usage=Usage(prompt_tokens=7), is_first=self.is_first)


@pytest.mark.parametrize("is_first", [True, False])
async def test_the_api_s_own_summary_stands_where_it_wants_and_the_user_s_words_stay(tmp_path, is_first):
    case = filled(tmp_path, compactor="server")
    model = SummarisingModel([says("Done.")])
    model.is_first = is_first
    capabilities = Capabilities(compacts=True)
    route = msgspec.structs.replace(case.session.routes.current, provider=model, capabilities=capabilities)
    case.session.routes.current = route
    assert (await case.turn("Now this")).reason == "done"
    (compacted,) = case.of(ev.ContextCompacted)
    places = [number for number, message in enumerate(compacted.messages) if isinstance(message, AssistantMessage)]
    summary = compacted.messages[places[0]]
    assert (places[0] == 0) is is_first
    assert summary.wire.items[0]["type"] == "compaction"
    assert (summary.content == "The summary.") is is_first
    assert ("Earlier steps" in summary.content) is not is_first
    assert model.requests[0].tools
    text = str(compacted.messages)
    for phrase in ("My first wish", "And tabs", "Do the thing", "They are in the summary before this message."):
        assert phrase in text
    assert [used.usage.prompt_tokens for used in case.of(ev.ModelUsed)] == [7]


async def test_without_the_api_s_summary_the_model_writes_notes(tmp_path):
    case = filled(tmp_path, compactor="server")
    model = SummarisingModel([says("Notes."), says("Done.")])
    model.fails = True
    capabilities = Capabilities(compacts=True)
    route = msgspec.structs.replace(case.session.routes.current, provider=model, capabilities=capabilities)
    case.session.routes.current = route
    assert (await case.turn("Now this")).reason == "done"
    assert "Notes." in str(case.messages)
    assert any("made no summary: It is too busy. The model writes notes." in n.message for n in case.of(ev.Notice))


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
