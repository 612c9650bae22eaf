from __future__ import annotations

import pytest

from core.errors import ProviderError
from core.protocol.messages import AssistantMessage, ReasoningBlock, ToolCall, ToolMessage, Usage, UserMessage
from core.providers.base import ReasoningDelta
from tests.support.provider_calls import Answer, ask, connect, request
from tests.support.provider_server import provider_server
from tests.support.provider_streams import Call, Step


async def played(*steps, asked=None):
    async with provider_server(steps) as server:
        provider = connect(server, "anthropic")
        try:
            answers = [await ask(provider, asked) for _ in steps]
        finally:
            await provider.close()
        return server, answers


async def test_thoughts_come_with_their_signature_and_hidden_ones_as_they_are():
    _, (answer,) = await played(Step(reasoning="Hm. " * 9, signature="c2ln", redacted="aGlkZGVu", text="So."))
    assert answer.reasoning == "Hm. " * 9
    assert (answer.signatures, answer.redacted) == (["c2ln"], ["aGlkZGVu"])
    marked = [delta for delta in answer.deltas if isinstance(delta, ReasoningDelta) and not delta.text]
    assert [(delta.index, delta.signature, delta.redacted) for delta in marked] == [
        (0, "c2ln", ""),
        (1, "", "aGlkZGVu"),
    ]


async def test_usage_counts_the_whole_prompt():
    counts = {"prompt": 1000, "completion": 50, "cached": 600, "cache_write": 100}
    _, (answer,) = await played(Step(text="x", usage=counts))
    assert answer.usage == Usage(prompt_tokens=1000, completion_tokens=50, cached_tokens=600, cache_write_tokens=100)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "refused"),
        ("something_new", "stop"),
    ],
)
async def test_why_an_answer_stopped_is_told_in_our_words(theirs, ours):
    _, (answer,) = await played(Step(text="x", finish=theirs))
    assert answer.finish == ours


async def test_an_overloaded_server_in_the_middle_of_the_stream_is_told_apart():
    events = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 1, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hel"}},
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
    ]
    answer = Answer()
    async with provider_server([Step(chunks=events)]) as server:
        provider = connect(server, "anthropic")
        with pytest.raises(ProviderError) as caught:
            await ask(provider, into=answer)
        await provider.close()
    assert (caught.value.code, caught.value.retryable) == ("overloaded", True)
    assert (answer.text, answer.finish) == ("Hel", "")


async def test_unknown_events_and_a_call_that_comes_whole_are_understood():
    call = {"type": "tool_use", "id": "toolu_9", "name": "grep", "input": {"pattern": "x"}}
    events = [
        {"type": "message_start", "message": {}},
        {"type": "something_new", "index": 3},
        {"type": "content_block_start", "index": 0, "content_block": call},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_delta", "index": 8, "delta": {"type": "text_delta", "text": "stray"}},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        {"type": "message_stop"},
    ]
    _, (answer,) = await played(Step(chunks=events))
    assert answer.calls == [{"id": "toolu_9", "name": "grep", "arguments": '{"pattern": "x"}'}]
    assert answer.text == "stray"


async def test_v4_calls_with_the_same_id_become_two():
    step = Step(calls=[Call(name="a", id="same"), Call(name="b", id="same")])
    _, (answer,) = await played(step)
    first, second = (call["id"] for call in answer.calls)
    assert first == "same"
    assert second != "same"


async def test_a_tool_round_goes_back_as_the_api_wants_it():
    thought = ReasoningBlock(text="Hm.", signature="c2ln")
    calls = (
        ToolCall(id="toolu_0", name="grep", arguments='{"pattern":"x"}'),
        ToolCall(id="toolu_1", name="ls", arguments=""),
    )
    history = request(
        UserMessage(content="find x"),
        AssistantMessage(content="Looking.", reasoning=(thought,), tool_calls=calls, model="anthropic/tiny-1"),
        ToolMessage(call_id="toolu_0", content="a.py:1"),
        ToolMessage(call_id="toolu_1", content="", is_error=True),
        UserMessage(content="<system_reminder>mind</system_reminder>", origin="program"),
    )
    server, _ = await played("Found.", asked=history)
    body = server.answered[0].json
    assert [each["role"] for each in body["messages"]] == ["user", "assistant", "user"]
    assert [block["type"] for block in body["messages"][1]["content"]] == ["thinking", "text", "tool_use", "tool_use"]
    assert body["messages"][1]["content"][0]["signature"] == "c2ln"
    assert [block["type"] for block in body["messages"][2]["content"]] == ["tool_result", "tool_result", "text"]
    assert server.answered[0].raw.count(b'"cache_control"') == 4
