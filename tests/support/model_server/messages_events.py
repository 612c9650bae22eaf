"""A step as the events of a streamed message (Anthropic)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tests.support.model_server.exchange import Event, Exchange, Item
from tests.support.model_server.step import Call, Place, Say, Step, Think, pieces

_REASONS: Final = {
    "length": "max_tokens",
    "refused": "refusal",
    "context_full": "model_context_window_exceeded",
    "paused": "pause_turn",
}


def messages_events(step: Step, exchange: Exchange) -> Iterator[Event]:
    if step.chunks:
        yield from (("text", chunk["type"], chunk) for chunk in step.chunks)
        return
    usage: dict[str, Any] = messages_usage(exchange.usage)
    if exchange.settings.get("speed"):
        usage["speed"] = exchange.settings["speed"]
    if (exchange.settings.get("cache_control") or {}).get("ttl") == "1h":
        usage["cache_creation"] = {"ephemeral_1h_input_tokens": usage["cache_creation_input_tokens"]}
    head: Item = {"id": f"msg_{exchange.number}", "type": "message", "role": "assistant", "model": exchange.model}
    head |= {"content": [], "stop_reason": None, "stop_sequence": None}
    if step.removed is not None:
        head["input_transformations"] = list(step.removed)
    if exchange.diagnostics is not None:
        head["diagnostics"] = dict(exchange.diagnostics)
    yield "before", *_event("message_start", message={**head, "usage": {**usage, "output_tokens": 1}})
    yield "before", *_event("ping")
    for index, (place, start, deltas) in enumerate(_blocks(step, exchange)):
        yield place, *_event("content_block_start", index=index, content_block=start)
        for delta in deltas:
            yield place, *_event("content_block_delta", index=index, delta=delta)
        yield place, *_event("content_block_stop", index=index)
    output_usage = {"output_tokens": usage["output_tokens"]}
    if thought := exchange.usage.get("reasoning"):
        output_usage["output_tokens_details"] = {"thinking_tokens": thought}
    yield "", *_event("message_delta", delta=_stop(step), usage=output_usage)
    if step.done_mark:
        yield "", *_event("message_stop")


def whole_message(step: Step, exchange: Exchange, body: Mapping[str, Any]) -> Item:
    """A message that is not streamed: a summary, or nothing but what was read into the cache."""
    usage = messages_usage(exchange.usage)
    head: Item = {"id": f"msg_{exchange.number}", "type": "message", "role": "assistant", "model": exchange.model}
    if "compaction" in body:
        block = {"type": "compaction", "content": step.text, "encrypted_content": None, "signature": "c2ln"}
        return {**head, "content": [block], "stop_reason": "compaction", "stop_sequence": None, "usage": usage}
    return {**head, "content": [], "stop_reason": "max_tokens", "stop_sequence": None, "usage": usage}


def _event(kind: str, **data: Any) -> tuple[str, dict[str, Any]]:
    return kind, {"type": kind, **data}


def _stop(step: Step) -> Item:
    refused = any(isinstance(part, Say) and part.refusal for part in step.in_order())
    usual = "tool_use" if step.has_calls() else "refusal" if refused else "end_turn"
    reason = _REASONS.get(step.finish, step.finish) or usual
    details = {"type": "refusal", "category": "cyber", "explanation": step.refusal or None}
    stop = {"stop_reason": reason, "stop_sequence": None}
    return stop | ({"stop_details": details} if reason == "refusal" else {})


def _blocks(step: Step, exchange: Exchange) -> Iterator[tuple[Place, Item, list[Item]]]:
    """Each block as it starts, and its deltas. Reasoning is signed over the blocks before it."""
    whole: list[Item] = []
    for part in step.in_order():
        match part:
            case Think(text=text, redacted=True):
                start = {"type": "redacted_thinking", "data": step.redacted or exchange.seal(whole, text)}
                yield "text", start, []
                whole.append(start)
            case Think(text=full):
                text = full if exchange.shows_thinking else ""
                signature = step.signature or exchange.seal(whole, text)
                deltas: list[Item] = [
                    {"type": "thinking_delta", "thinking": piece} for piece in pieces(text, step.piece)
                ]
                deltas.append({"type": "signature_delta", "signature": signature})
                yield "text", {"type": "thinking", "thinking": "", "signature": ""}, deltas
                whole.append({"type": "thinking", "thinking": text, "signature": signature})
            case Say(text=text):
                text_deltas = [{"type": "text_delta", "text": piece} for piece in pieces(text, step.piece)]
                yield "text", {"type": "text", "text": ""}, text_deltas
                whole.append({"type": "text", "text": text})
            case Call():
                call, deltas = _call(part, step, exchange, whole)
                yield "tool", call, deltas
                whole.append({**call, "input": _object(part.text())})


def _call(call: Call, step: Step, exchange: Exchange, before: Sequence[Item]) -> tuple[Item, list[Item]]:
    written: list[Item] = [
        {"type": "input_json_delta", "partial_json": piece} for piece in pieces(call.text(), step.piece)
    ]
    index = sum(block["type"] == "tool_use" for block in before)
    start = {"type": "tool_use", "id": exchange.call_id(call, "toolu", index), "name": call.name, "input": {}}
    if call.id is None:
        del start["id"]
    return start, written


def _object(text: str) -> Any:
    try:
        return json.loads(text or "{}")
    except ValueError:
        return {}


def messages_usage(usage: Mapping[str, int]) -> dict[str, int]:
    cached, written = usage.get("cached", 0), usage.get("cache_write", 0)
    return {
        "input_tokens": usage.get("prompt", 0) - cached - written,
        "output_tokens": usage.get("completion", 0),
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": written,
    }
