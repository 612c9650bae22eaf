"""A step as the chunks of a streamed chat completion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tests.support.model_server.exchange import Event, Exchange
from tests.support.model_server.step import Call, Say, Step, Think, pieces

_REASONS: Final = {"refused": "content_filter", "failed": "error"}


def chat_events(step: Step, exchange: Exchange) -> Iterator[Event]:
    if step.chunks:
        yield from (("text", "", chunk) for chunk in step.chunks)
    else:
        yield "before", "", _chunk(exchange, {"role": "assistant", "content": ""})
        yield from _content(step, exchange)
        reason = _REASONS.get(step.finish, step.finish) or ("tool_calls" if step.has_calls() else "stop")
        yield "", "", {**_chunk(exchange, {}), "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
        if exchange.usage:
            yield "", "", {**_chunk(exchange, {}), "choices": [], "usage": chat_usage(exchange.usage)}
    if step.done_mark:
        yield "", "", "[DONE]"


def _content(step: Step, exchange: Exchange) -> Iterator[Event]:
    index = 0
    for part in step.in_order():
        match part:
            case Think(text=text):
                deltas = ({"reasoning_content": piece} for piece in pieces(text, step.piece))
                yield from (("text", "", _chunk(exchange, delta)) for delta in deltas)
            case Say(text=text, refusal=refusal):
                name = "refusal" if refusal else "content"
                yield from (("text", "", _chunk(exchange, {name: piece})) for piece in pieces(text, step.piece))
            case Call():
                yield from _call(part, index, step, exchange)
                index += 1


def _call(call: Call, index: int, step: Step, exchange: Exchange) -> Iterator[Event]:
    name = {"function": {"name": call.name, "arguments": ""}}
    opened: dict[str, Any] = {
        "index": index,
        "id": exchange.call_id(call, "call", index),
        "type": "function",
        **name,
        **call.extra,
    }
    if call.id is None:
        del opened["id"]
    yield "tool", "", _chunk(exchange, {"tool_calls": [opened]})
    for piece in pieces(call.text(), step.piece):
        yield "tool", "", _chunk(exchange, {"tool_calls": [{"index": index, "function": {"arguments": piece}}]})


def _chunk(exchange: Exchange, delta: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{exchange.number}",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": exchange.model,
        "choices": [{"index": 0, "delta": delta, "finish_reason": None}],
    }


def chat_usage(usage: Mapping[str, int]) -> dict[str, Any]:
    prompt, completion = usage.get("prompt", 0), usage.get("completion", 0)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": usage.get("cached", 0)},
        "completion_tokens_details": {"reasoning_tokens": usage.get("reasoning", 0)},
    }
