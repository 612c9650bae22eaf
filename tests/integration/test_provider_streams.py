from __future__ import annotations

import asyncio
import contextlib
import json

import pytest

from core.errors import ContextOverflow, ProviderError
from core.providers.base import TextDelta
from core.providers.catalog import reported as told
from tests.support.provider_calls import KEY, Answer, ask, connect, request
from tests.support.provider_server import provider_server
from tests.support.provider_streams import Call, Step

TEXT = "Grüße, 世界! 👩‍💻 " * 5
FULL = Step(
    text=TEXT,
    reasoning="Let me think — first…",
    calls=[Call(name="grep", arguments={"pattern": "naïve"}, id="id_1"), Call(name="list_dir", id="id_2")],
    usage={"prompt": 1000, "completion": 50, "cached": 600, "cache_write": 100, "reasoning": 30},
)
DIALECTS = ("openai", "responses", "anthropic")
pytestmark = pytest.mark.parametrize("dialect", DIALECTS)


@contextlib.asynccontextmanager
async def playing(dialect, *steps, **fields):
    async with provider_server(steps) as server:
        provider = connect(server, dialect, **fields)
        try:
            yield server, provider
        finally:
            await provider.close()
            await provider.close()


async def failure_of(dialect, step, **fields) -> tuple[ProviderError, Answer]:
    answer = Answer()
    async with playing(dialect, step, **fields) as (_, provider):
        with pytest.raises(ProviderError) as caught:
            await ask(provider, into=answer)
    assert caught.value.__suppress_context__
    return caught.value, answer


async def test_text_reasoning_calls_and_usage_come_through(dialect):
    async with playing(dialect, FULL) as (_, provider):
        answer = await ask(provider)
    assert (answer.text, answer.reasoning) == (FULL.text, FULL.reasoning)
    assert [(call["id"], call["name"]) for call in answer.calls] == [("id_1", "grep"), ("id_2", "list_dir")]
    assert [json.loads(call["arguments"]) for call in answer.calls] == [{"pattern": "naïve"}, {}]
    assert answer.finish == "tool_calls"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.cached_tokens) == (1000, 50, 600)


@pytest.mark.parametrize(
    "shape",
    [
        {"write_size": 1},
        {"write_size": 7, "newline": "\r\n"},
        {"comments": True},
        {"comments": True, "newline": "\r\n", "write_size": 1},
        {"done_mark": False},
        {"piece": 1},
        {"piece": 100_000},
    ],
    ids=str,
)
async def test_v6_the_text_is_right_whatever_the_stream_looks_like(dialect, shape):
    if dialect == "responses" and "done_mark" in shape:
        pytest.skip("its last event is the answer's end, and not a mark after it")
    step = Step(text=TEXT, calls=[Call(name="grep", arguments={"pattern": "é世"})], **shape)
    async with playing(dialect, step) as (_, provider):
        answer = await ask(provider)
    assert answer.text == TEXT
    assert json.loads(answer.calls[0]["arguments"]) == {"pattern": "é世"}
    assert answer.finish == "tool_calls"


@pytest.mark.parametrize(
    ("step", "code", "retryable"),
    [
        (Step(status=401, error="invalid x-api-key"), "key_rejected", False),
        (Step(status=403, error="not allowed"), "key_rejected", False),
        (Step(status=429, error="slow down", headers={"Retry-After": "7"}), "rate_limited", True),
        (Step(status=429, error="no money", error_type="insufficient_quota"), "quota_exhausted", False),
        (Step(status=500, error="oops"), "server_failed", True),
        (Step(status=502, body="<html><body><h1>502 Bad Gateway</h1></body></html>"), "server_failed", True),
        (Step(status=503, error="busy"), "overloaded", True),
        (Step(status=529, error="busy", error_type="overloaded_error"), "overloaded", True),
        (Step(status=302, error="moved", headers={"Location": "http://127.0.0.1:9/"}), "request_invalid", False),
    ],
    ids=lambda value: getattr(value, "status", None),
)
async def test_v1_each_failure_is_ours_and_comes_after_one_request(dialect, step, code, retryable):
    async with playing(dialect, step, "never asked for") as (server, provider):
        with pytest.raises(ProviderError) as caught:
            await ask(provider)
        assert len(server.requests) == 1
    assert (caught.value.code, caught.value.retryable) == (code, retryable)
    assert caught.value.retry_after == (7 if "Retry-After" in step.headers else None)
    assert "<" not in caught.value.message


async def test_a_rejected_key_says_where_it_is_from(dialect):
    error, _ = await failure_of(dialect, Step(status=401, error="no"))
    assert "environment variable TEST_KEY" in error.hint


async def test_v10_k2_a_key_that_the_server_echoes_is_taken_out(dialect):
    error, _ = await failure_of(dialect, Step(status=401, echo_key=True))
    assert KEY not in error.format_with_hint()
    page = "<html><title>Denied {key}</title></html>"
    error, _ = await failure_of(dialect, Step(status=400, body=page))
    assert KEY not in error.format_with_hint()
    assert "Denied" in error.message


async def test_an_unknown_model_is_answered_with_names_that_are_near(dialect):
    step = Step(status=404, error="model: tiny-3 not found", error_type="not_found_error")
    async with playing(dialect, step) as (_, provider):
        with pytest.raises(ProviderError) as caught:
            await ask(provider, request(model="tiny-3"))
    assert caught.value.code == "model_unknown"
    assert "tiny-3" in caught.value.message
    assert "tiny-1" in caught.value.hint


async def test_v7_an_overflow_has_an_error_of_its_own(dialect):
    error, _ = await failure_of(dialect, Step(status=400, error="prompt is too long: 210000 tokens > 200000 maximum"))
    assert isinstance(error, ContextOverflow)


@pytest.mark.parametrize("place", ["before", "text", "tool"])
async def test_v2_a_cut_stream_never_finishes(dialect, place):
    step = Step(text="x" * 200, calls=[Call(name="grep", arguments={"pattern": "y" * 200})], cut=place)
    error, answer = await failure_of(dialect, step)
    assert (error.code, error.retryable) == ("stream_cut", True)
    assert answer.finish == ""
    assert bool(answer.text) == (place != "before")
    if place == "tool":
        with pytest.raises(ValueError, match=r"Unterminated|delimiter|Expecting"):
            json.loads(answer.calls[0]["arguments"])


@pytest.mark.parametrize("place", ["before", "text"])
async def test_v6_a_silent_server_is_given_up(dialect, place):
    error, answer = await failure_of(dialect, Step(text="x" * 200, hang=place), stall_seconds=0.2)
    assert (error.code, error.retryable) == ("stalled", True)
    assert bool(answer.text) == (place == "text")


async def test_v9_closing_the_stream_ends_the_connection(dialect):
    async with playing(dialect, Step(text="x" * 200, hang="text")) as (server, provider):
        stream = provider.stream(request())
        async for delta in stream:
            if isinstance(delta, TextDelta):
                break
        await server.hanging.wait()
        await stream.aclose()
        await server.dropped.wait()
        assert server.dropped.is_set()


async def test_v9_cancelling_does_not_wait_for_a_silent_server(dialect):
    async with playing(dialect, Step(hang="before")) as (server, provider):
        task = asyncio.ensure_future(ask(provider))
        await server.hanging.wait()
        task.cancel()
        await asyncio.wait({task})
        await server.dropped.wait()
        assert task.cancelled()


async def test_nothing_listening_is_explained(dialect):
    async with provider_server() as server:
        provider = connect(server, dialect)
    with pytest.raises(ProviderError) as caught:
        await ask(provider)
    await provider.close()
    assert (caught.value.code, caught.value.retryable) == ("unreachable", True)
    assert server.url in caught.value.message


async def test_a_wrong_address_is_told_from_a_wrong_model(dialect):
    async with provider_server() as server:
        provider = connect(server, dialect, base_url=f"{server.url}/wrong/place")
        with pytest.raises(ProviderError) as caught:
            await ask(provider)
        await provider.close()
    assert caught.value.code == "address_unknown"
    assert "/wrong/place" in caught.value.hint


async def test_without_a_key_nothing_is_sent_where_one_is_needed(dialect):
    fields = {"find_key": lambda: (None, ""), "needs_key": True, "variable": "SOME_API_KEY"}
    async with playing(dialect, "hi", **fields) as (server, provider):
        with pytest.raises(ProviderError) as caught:
            await ask(provider)
        assert server.requests == []
    assert caught.value.code == "key_missing"
    assert "SOME_API_KEY" in caught.value.hint


async def test_the_models_of_a_server_are_listed(dialect):
    async with playing(dialect) as (_, provider):
        assert [info.name for info in await provider.list_models()] == ["tiny-1", "tiny-2"]


async def test_one_client_serves_many_calls(dialect):
    async with playing(dialect, *["again"] * 3) as (server, provider):
        texts = [(await ask(provider)).text for _ in range(3)]
        assert {request.key for request in server.requests} == {KEY}
    assert texts == ["again"] * 3


async def test_a_second_request_begins_with_the_bytes_of_the_first(dialect):
    first = request()
    second = request(*first.messages, *first.messages)
    async with playing(dialect, "a", "b") as (server, provider):
        await ask(provider, first)
        await ask(provider, second)
        bodies = [sent_request.json for sent_request in server.answered]
    for name in ("tools", "system"):
        assert bodies[0].get(name) == bodies[1].get(name)


async def test_one_connection_serves_the_calls_of_a_turn(dialect):
    async with playing(dialect, FULL, FULL, FULL) as (server, provider):
        # What its models can do is asked on a connection of its own, once a week.
        for url in (server.openai_url, server.anthropic_url):
            told.save_reported(url, [], requested_model=request().model)
        for _ in range(3):
            await ask(provider)
        assert len(server.answered) == 3
        assert server.connections == 1
