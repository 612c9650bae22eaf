from __future__ import annotations

import json

import pytest

from core.errors import ProviderError
from core.protocol.messages import Usage
from tests.support.provider_calls import ask, connect, request
from tests.support.provider_server import provider_server
from tests.support.provider_streams import Call, Step
from tests.support.work import counted


def chunk(delta=None, finish=None, **rest):
    return {"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **rest}


async def answer_to(*chunks, **fields):
    async with provider_server([Step(chunks=chunks, **fields)]) as server:
        provider = connect(server, "openai")
        try:
            return await ask(provider)
        finally:
            await provider.close()


async def test_reasoning_has_two_names():
    answer = await answer_to(chunk({"reasoning_content": "a"}), chunk({"reasoning": "b"}), chunk({}, "stop"))
    assert answer.reasoning == "ab"


async def test_usage_is_read_in_every_place_that_servers_put_it():
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    expected = Usage(prompt_tokens=10, completion_tokens=5, cached_tokens=4, reasoning_tokens=2)
    alone = await answer_to(chunk({"content": "x"}, "stop"), {"choices": [], "usage": usage})
    with_finish = await answer_to(chunk({"content": "x"}), chunk({}, "stop", usage=usage))
    below = await answer_to(chunk({"content": "x"}, "stop", x_groq={"usage": usage}))
    assert [alone.usage, with_finish.usage, below.usage] == [expected] * 3
    hit = await answer_to(
        chunk({}, "stop", usage={"prompt_tokens": 9, "prompt_cache_hit_tokens": 3, "completion_tokens": None})
    )
    assert hit.usage == Usage(prompt_tokens=9, cached_tokens=3)


async def test_v5_why_an_answer_stopped_is_told_in_our_words():
    reasons = {
        "stop": "stop",
        "length": "length",
        "content_filter": "refused",
        "tool_calls": "tool_calls",
        "odd": "stop",
    }
    for theirs, ours in reasons.items():
        assert (await answer_to(chunk({"content": "x"}), chunk({}, theirs))).finish == ours
    call = {"tool_calls": [{"index": 0, "id": "1", "function": {"name": "grep", "arguments": '{"a'}}]}
    assert (await answer_to(chunk(call), chunk({}, "stop"))).finish == "tool_calls"
    assert (await answer_to(chunk(call), chunk({}, "length"))).finish == "length"
    assert (await answer_to(chunk({"refusal": "I can't."}), chunk({}, "stop"))).finish == "refused"


async def test_odd_chunks_are_passed_over():
    answer = await answer_to(
        {"choices": None},
        [],
        7,
        chunk(None),
        {"choices": [{"index": 1, "delta": {"content": "no"}}]},
        chunk({"content": None, "tool_calls": None}),
        chunk({"content": [{"type": "text", "text": "yes"}]}, "stop"),
    )
    assert answer.text == "yes"


async def test_an_error_in_the_stream_is_told_apart():
    error = {"error": {"message": "Rate limit reached", "type": "rate_limit_exceeded", "code": None}}
    with pytest.raises(ProviderError) as caught:
        await answer_to(chunk({"content": "x"}), error)
    assert (caught.value.code, caught.value.retryable) == ("rate_limited", True)


async def test_a_stream_without_json_is_explained():
    with pytest.raises(ProviderError) as caught:
        await answer_to("this is not JSON")
    assert caught.value.code == "stream_invalid"


async def test_an_end_without_a_reason_in_the_middle_of_a_call_is_a_cut():
    call = {"index": 0, "id": "a", "function": {"name": "grep", "arguments": '{"pattern": "x'}}
    with pytest.raises(ProviderError) as caught:
        await answer_to(chunk({"content": "x", "tool_calls": [call]}))
    assert caught.value.code == "stream_cut"


async def test_silence_after_the_end_of_the_answer_is_not_waited_out(monkeypatch):
    monkeypatch.setattr("core.providers.openai.provider._GRACE", {"chat": 0.05})
    async with provider_server([Step(chunks=[chunk({"content": "x"}, "stop")] * 3, hang="text")]) as server:
        provider = connect(server, "openai")
        answer = await ask(provider)
        await provider.close()
    assert (answer.finish, answer.text) == ("stop", "xx")


@pytest.mark.parametrize(
    "complaint",
    [
        "Unrecognized request argument supplied: stream_options",
        "[{'loc': ['stream_options'], 'msg': 'Extra inputs are not permitted'}]",
    ],
)
async def test_a_server_that_refuses_to_count_is_asked_without_it_from_then_on(complaint):
    async with provider_server([Step(status=400, error=complaint), "one", "two"]) as server:
        provider = connect(server, "openai")
        texts = [(await ask(provider)).text, (await ask(provider)).text]
        await provider.close()
        asked = ["stream_options" in request.json for request in server.answered]
    assert texts == ["one", "two"]
    assert asked == [True, False, False]


async def test_the_limit_is_sent_under_the_name_that_the_server_knows():
    refusal = (
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    )
    async with provider_server([Step(status=400, error=refusal), "one"]) as server:
        provider = connect(server, "openai")
        await ask(provider, request(max_tokens=77))
        await provider.close()
        limits = [
            (sent_request.json.get("max_tokens"), sent_request.json.get("max_completion_tokens"))
            for sent_request in server.answered
        ]
    assert limits == [(77, None), (None, 77)]


async def test_a_refusal_that_can_not_be_helped_is_asked_once():
    async with provider_server([Step(status=400, error="messages: too few")], repeat=True) as server:
        provider = connect(server, "openai")
        with pytest.raises(ProviderError, match="too few"):
            await ask(provider)
        await provider.close()
        assert len(server.answered) == 1


async def test_without_a_key_a_local_server_is_asked_all_the_same():
    async with provider_server(["hi"]) as server:
        provider = connect(server, "openai", find_key=lambda **_: (None, ""))
        assert (await ask(provider)).text == "hi"
        await provider.close()


async def test_v6_a_piece_costs_the_same_however_many_came_before():
    pieces = (200, 200, 2_000)
    async with provider_server([Step(text="word " * count, piece=5) for count in pieces]) as server:
        provider = connect(server, "openai")
        spent: list[int] = []
        for count in pieces:
            with counted() as work:
                answer = await ask(provider)
            spent.append(work.lines)
            assert answer.text == "word " * count
        await provider.close()
    _warm_up, few, many = spent
    assert many < 10 * 1.3 * few


async def test_v3_ten_megabytes_of_arguments_come_through_whole():
    arguments = json.dumps({"contents": "x" * 10_000_000})
    async with provider_server([Step(calls=[Call(name="write", arguments=arguments)], piece=500_000)]) as server:
        provider = connect(server, "openai")
        answer = await ask(provider)
        await provider.close()
    assert answer.calls[0]["arguments"] == arguments
