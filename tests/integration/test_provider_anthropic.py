from __future__ import annotations

import asyncio
from functools import partial

import pytest

from core.errors import ProviderError
from core.protocol.messages import AssistantMessage, ToolCall, ToolMessage, Usage, UserMessage, WireAnswer
from core.providers.base import ReasoningDelta, RequestReport
from core.providers.catalog import reported as told
from core.providers.catalog.capabilities import find_capabilities
from tests.support.model_server.step import Call, Say, Step, Think
from tests.support.provider_calls import Answer, ask, connect, request
from tests.support.provider_server import provider_server
from tests.support.sdk_clients import by_messages


async def played(*steps, asked=None):
    async with provider_server(steps) as server:
        provider = connect(server, "anthropic")
        try:
            answers = [await ask(provider, asked) for _ in steps]
        finally:
            await provider.close()
        return server, answers


async def test_an_answer_comes_with_its_blocks_as_they_were():
    step = Step(
        parts=[
            Think(text="Hm. " * 9),
            Think(text="aGlkZGVu", redacted=True),
            Say(text="So."),
            Think(text="And."),
            Call(name="grep", arguments='{"pattern":"ü",  "n": 1.50}'),
        ]
    )
    _, (answer,) = await played(step)
    assert answer.reasoning == "Hm. " * 9 + "And."
    assert [delta.index for delta in answer.deltas if isinstance(delta, ReasoningDelta)][-1] == 2
    assert answer.wire is not None
    assert [item["type"] for item in answer.wire.items] == [
        "thinking",
        "redacted_thinking",
        "text",
        "thinking",
        "tool_use",
    ]
    async with provider_server([step]) as server:
        message = (await by_messages(server)).whole
    assert [dict(item) for item in answer.wire.items] == [
        block.model_dump(exclude_unset=True, exclude={"parsed_output"}) for block in message.content
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
        ("pause_turn", "paused"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "context_full"),
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


async def test_a_tool_round_goes_back_byte_for_byte():
    parts = [Think(text="Hm."), Say(text="Looking."), Call(name="grep", arguments={"pattern": "x"}), Call(name="ls")]
    async with provider_server([Step(parts=parts), "Found."]) as server:
        provider = connect(server, "anthropic")
        first = await ask(provider)
        calls = tuple(
            ToolCall(id=f"ours{number}", name=call["name"], arguments=call["arguments"], wire_id=call["id"])
            for number, call in enumerate(first.calls)
        )
        second = await ask(
            provider,
            request(
                UserMessage(content="hi"),
                AssistantMessage(content=first.text, tool_calls=calls, model="anthropic/tiny-1", wire=first.wire),
                ToolMessage(call_id="ours0", content="a.py:1"),
                ToolMessage(call_id="ours1", content="", is_error=True),
                UserMessage(content="<system_reminder>mind</system_reminder>", origin="program"),
            ),
        )
        await provider.close()
    one, two = server.answered
    assert two.raw.startswith(one.raw[: one.raw.index(b"]", one.raw.index(b'"messages"'))])
    body = two.json
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user", "user"]
    assert body["messages"][1]["content"] == list(first.wire.items)
    results = body["messages"][2]["content"]
    assert [(result["type"], result["tool_use_id"]) for result in results] == [
        ("tool_result", first.calls[0]["id"]),
        ("tool_result", first.calls[1]["id"]),
    ]
    assert second.report == RequestReport()
    assert second.wire.binding != first.wire.binding


@pytest.mark.parametrize(
    ("message", "gone"),
    [
        ("cache_control: Extra inputs are not permitted", "cache_control"),
        ("thinking.adaptive.display: Extra inputs are not permitted", "display"),
        ("output_config: Extra inputs are not permitted", "output_config"),
        ("thinking: Input tag 'adaptive' does not match any of the expected tags", "thinking"),
    ],
)
async def test_what_a_compatible_host_refuses_is_left_out_from_then_on(message, gone):
    refusal = Step(status=400, error=message, error_type="invalid_request_error")
    asked = request(model="claude-opus-5-5", effort="low")
    async with provider_server([refusal, "One.", "Two."]) as server:
        provider = connect(server, "anthropic")
        answers = [await ask(provider, asked), await ask(provider, asked)]
        await provider.close()
    assert [answer.text for answer in answers] == ["One.", "Two."]
    is_loss = gone in {"output_config", "thinking"}
    assert [bool(answer.report.notice) for answer in answers] == [is_loss, False]
    assert [f'"{gone}"'.encode() in sent_request.raw for sent_request in server.answered] == [True, False, False]


async def test_a_refusal_says_why():
    _, (answer,) = await played(Step(text="I can't.", refusal="It could harm.", finish="refused"))
    assert answer.finish == "refused"
    assert answer.report.notice == "Reason given by The server: It could harm."


async def test_an_answer_that_lost_its_thoughts_is_told_of():
    lost = AssistantMessage(
        content="x",
        model="anthropic/tiny-1",
        wire=WireAnswer(wire="messages", items=({"type": "thinking", "thinking": "t", "signature": "s"},), binding="b"),
    )
    _, (answer,) = await played("y", asked=request(UserMessage(content="a"), lost, UserMessage(content="b")))
    assert answer.report == RequestReport(dropped_reasoning=1)


async def test_its_own_host_is_asked_why_its_cache_was_missed(monkeypatch):
    reason = {"type": "tools_changed", "cache_missed_input_tokens": 12_345}
    start = {"type": "message_start", "message": {"id": "msg_2", "diagnostics": {"cache_miss_reason": reason}}}
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    steps = ["One.", Step(chunks=[start, end]), "Three.", "Four."]
    async with provider_server(steps) as server:
        elsewhere = connect(server, "anthropic")
        await ask(elsewhere, request(session="s"))
        monkeypatch.setattr("core.providers.anthropic_provider.OFFICIAL_HOST", "127.0.0.1")
        provider = connect(server, "anthropic")
        second = await ask(provider, request(session="s"))
        await ask(provider, request(session="s"))
        await ask(provider, request(session="s", private=True))
        await elsewhere.close()
        await provider.close()
    asked = [sent_request.json.get("diagnostics", "not asked") for sent_request in server.answered]
    assert asked == ["not asked", {"previous_message_id": None}, {"previous_message_id": "msg_2"}, "not asked"]
    assert second.report == RequestReport(cache_miss="tools changed, about 12,345 tokens")


@pytest.mark.parametrize(
    "message",
    [
        "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation",
        "messages.3.content.0: `thinking` blocks in the latest assistant message cannot be modified.",
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.",
    ],
)
async def test_a_refusal_of_thoughts_has_a_code_of_its_own(message):
    with pytest.raises(ProviderError) as caught:
        await played(Step(status=400, error=message, error_type="invalid_request_error"))
    assert (caught.value.code, caught.value.retryable) == ("reasoning_refused", False)


async def test_after_the_first_answer_the_api_is_asked_what_the_model_can_do(monkeypatch):
    heard, loop, save_reports = asyncio.Event(), asyncio.get_running_loop(), told.save_reports

    def remembered(*told_of, **fields):
        save_reports(*told_of, **fields)
        loop.call_soon_threadsafe(heard.set)

    monkeypatch.setattr(told, "save_reports", remembered)
    async with provider_server(["One.", "Two.", "Three."], models=["claude-opus-5-5", "claude-haiku-5-5"]) as server:
        able = partial(find_capabilities, "anthropic", "claude-haiku-5-5", wire="messages", origin=server.anthropic_url)
        assert able().context_window == 1_000_000
        provider = connect(server, "anthropic")
        await ask(provider, request(model="claude-opus-5-5"))
        await heard.wait()
        assert able().context_window == 200_000  # what this server tells of it
        await ask(provider, request(model="claude-opus-5-5"))
        await provider.close()
        again = connect(server, "anthropic")
        await ask(again, request(model="claude-opus-5-5", private=True))
        await again.close()
        asked = [sent_request.path for sent_request in server.requests if sent_request.method == "GET"]
    assert asked == ["/v1/models?limit=200"]
