"""A step as the events of a streamed response (OpenAI)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tests.support.model_server.exchange import Event, Exchange, Item
from tests.support.model_server.step import Call, Place, Say, Step, Think, pieces

_INCOMPLETE: Final = {
    "length": "max_output_tokens",
    "context_full": "max_output_tokens",
    "max_output_tokens": "max_output_tokens",
    "refused": "content_filter",
    "content_filter": "content_filter",
}


def responses_events(step: Step, exchange: Exchange) -> Iterator[Event]:
    """Every event with its number in the stream."""
    if step.chunks:
        yield from (("text", chunk["type"], chunk) for chunk in step.chunks)
        return
    numbers = itertools.count()
    for place, kind, data in _whole(step, exchange):
        yield place, kind, {"type": kind, "sequence_number": next(numbers), **data}


def _whole(step: Step, exchange: Exchange) -> Iterator[Event]:
    base = _base(exchange)
    yield "before", "response.created", {"response": base}
    yield "before", "response.in_progress", {"response": base}
    done: list[Item] = []
    for index, part in enumerate(step.in_order()):
        yield from _item(part, index, step, exchange, done)
    base = base if step.removed is None else {**base, "input_transformations": list(step.removed)}
    closed = {**base, "output": done, "usage": responses_usage(exchange.usage) if exchange.usage else None}
    if step.finish == "failed":
        error = {"code": step.error_type or "server_error", "message": step.error}
        yield "", "response.failed", {"response": {**closed, "status": "failed", "error": error}}
    elif reason := _INCOMPLETE.get(step.finish):
        cut = {"status": "incomplete", "incomplete_details": {"reason": reason}}
        yield "", "response.incomplete", {"response": {**closed, **cut}}
    else:
        yield "", "response.completed", {"response": {**closed, "status": "completed"}}


def _base(exchange: Exchange) -> Item:
    diagnostics = {} if exchange.diagnostics is None else {"prompt_cache_diagnostics": dict(exchange.diagnostics)}
    return {
        "id": f"resp_{exchange.number}",
        "object": "response",
        "created_at": 1,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "model": exchange.model,
        "output": [],
        "parallel_tool_calls": True,
        "store": False,
        "tool_choice": "auto",
        "tools": [],
        "usage": None,
        **diagnostics,
        **{name: value for name, value in exchange.settings.items() if name not in {"speed", "cache_control"}},
    }


def _item(part: Think | Say | Call, index: int, step: Step, exchange: Exchange, done: list[Item]) -> Iterator[Event]:
    """Its events; the finished item is appended to `done`."""
    match part:
        case Think():
            place, opened, closed = _reasoning(part, index, step, exchange, done)
        case Say():
            place, opened, closed = _message(part, index, exchange)
        case Call():
            place, opened, closed = _call(part, index, exchange, done)
    yield "", "response.output_item.added", {"output_index": index, "item": opened}
    for kind, data in _growth(closed, step.piece):
        item = {"item_id": closed["id"], "output_index": index}
        yield place if kind.endswith(".delta") else "", f"response.{kind}", {**item, **data}
    yield "", "response.output_item.done", {"output_index": index, "item": closed}
    done.append(closed)


Opened = tuple[Place, Item, Item]


def _reasoning(part: Think, index: int, step: Step, exchange: Exchange, before: Sequence[Item]) -> Opened:
    """The encrypted reasoning that counts is that of the finished item: the first one is another."""
    item: Item = {"id": f"rs_{exchange.number}_{index}", "type": "reasoning", "summary": []}
    closed = dict(item)
    if part.raw:
        closed["content"] = [{"type": "reasoning_text", "text": part.text}]
    elif part.text and not part.redacted:
        closed["summary"] = [{"type": "summary_text", "text": paragraph} for paragraph in part.text.split("\n\n")]
    closed["encrypted_content"] = step.signature or exchange.seal(before, part.text)
    return "text", {**item, "encrypted_content": "gAAAAA-unfinished"}, closed


def _message(part: Say, index: int, exchange: Exchange) -> Opened:
    item: Item = {"id": f"msg_{exchange.number}_{index}", "type": "message", "role": "assistant"}
    item |= {"phase": part.phase} if part.phase else {}
    content = {"type": "refusal", "refusal": part.text}
    if not part.refusal:
        content = {"type": "output_text", "annotations": [], "logprobs": [], "text": part.text}
    opened = {**item, "status": "in_progress", "content": []}
    return "text", opened, {**item, "status": "completed", "content": [content]}


def _call(call: Call, index: int, exchange: Exchange, before: Sequence[Item]) -> Opened:
    number = sum(entry["type"].endswith("_call") for entry in before)
    call_id = exchange.call_id(call, "call", number)
    fields = {"call_id": call_id, "name": call.name} if call.id is not None else {"name": call.name}
    if call.is_search:
        item = {"id": f"tsc_{exchange.number}_{index}", "type": "tool_search_call", "execution": "client"}
        item |= {"call_id": call_id, "arguments": json.loads(call.text())}
        return "tool", {**item, "status": "in_progress"}, {**item, "status": "completed"}
    if call.freeform:
        item = {"id": f"ctc_{exchange.number}_{index}", "type": "custom_tool_call", **fields}
        return "tool", {**item, "input": ""}, {**item, "input": call.free_text()}
    item = {"id": f"fc_{exchange.number}_{index}", "type": "function_call", **fields}
    opened = {**item, "status": "in_progress", "arguments": ""}
    return "tool", opened, {**item, "status": "completed", "arguments": call.text()}


def _growth(item: Item, size: int) -> Iterator[tuple[str, Item]]:
    """The events between the item's first and last, from what it is in the end."""
    match item["type"]:
        case "function_call":
            yield from (
                ("function_call_arguments.delta", {"delta": piece}) for piece in pieces(item["arguments"], size)
            )
            yield "function_call_arguments.done", {"arguments": item["arguments"]}
        case "tool_search_call":
            return
        case "custom_tool_call":
            yield from (("custom_tool_call_input.delta", {"delta": piece}) for piece in pieces(item["input"], size))
            yield "custom_tool_call_input.done", {"input": item["input"]}
        case "reasoning":
            for number, part in enumerate(item["summary"]):
                yield from _summary(part, number, size)
            for number, part in enumerate(item.get("content", ())):
                yield from _content(part, number, size)
        case _:
            for number, part in enumerate(item["content"]):
                yield from _content(part, number, size)


def _summary(part: Item, number: int, size: int) -> Iterator[tuple[str, Item]]:
    at = {"summary_index": number}
    yield "reasoning_summary_part.added", {**at, "part": {**part, "text": ""}}
    yield from (("reasoning_summary_text.delta", {**at, "delta": piece}) for piece in pieces(part["text"], size))
    yield "reasoning_summary_text.done", {**at, "text": part["text"]}
    yield "reasoning_summary_part.done", {**at, "part": part}


def _content(part: Item, number: int, size: int) -> Iterator[tuple[str, Item]]:
    at = {"content_index": number}
    name = {"output_text": "output_text", "refusal": "refusal", "reasoning_text": "reasoning_text"}[part["type"]]
    field = "refusal" if name == "refusal" else "text"
    extra = {"logprobs": []} if name == "output_text" else {}
    yield "content_part.added", {**at, "part": {**part, field: ""}}
    yield from ((f"{name}.delta", {**at, "delta": piece, **extra}) for piece in pieces(part[field], size))
    yield f"{name}.done", {**at, field: part[field], **extra}
    yield "content_part.done", {**at, "part": part}


def responses_usage(usage: Mapping[str, int]) -> dict[str, Any]:
    prompt, completion = usage.get("prompt", 0), usage.get("completion", 0)
    cached, written = usage.get("cached", 0), usage.get("cache_write", 0)
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
        "output_tokens": completion,
        "output_tokens_details": {"reasoning_tokens": usage.get("reasoning", 0)},
        "total_tokens": prompt + completion,
    }
