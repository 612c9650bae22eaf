"""One scripted answer, and its server-sent events in the two dialects that model APIs speak."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Dialect = Literal["openai", "anthropic"]
Place = Literal["", "before", "text", "tool"]


@dataclass(frozen=True, kw_only=True)
class Call:
    """`arguments`: a mapping, or the raw text for arguments that are not valid JSON."""

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str = ""

    def text(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@dataclass(frozen=True, kw_only=True)
class Step:
    """What one request is answered with.

    `usage`: prompt, completion, cached, cache_write, reasoning. `piece`: characters in a delta. `chunks`: these JSON
    objects instead of generated ones; `raw`: this text as the whole stream; `flood`: this for ever after. `cut` drops
    the connection and `hang` stops sending: before any event, in the text, or in the arguments of the first call.
    `write_size`: bytes in one write, 0 = an event a write. `rate`: deltas
    per second, 0 = as fast as it goes. `status` other than 200 is answered with `error`, or with `body` as it stands;
    `echo_key` puts the key of the request into the error.
    """

    text: str = ""
    reasoning: str = ""
    signature: str = "c2lnbmF0dXJl"
    redacted: str = ""
    calls: Sequence[Call] = ()
    usage: Mapping[str, int] = field(default_factory=lambda: {"prompt": 100, "completion": 20})
    finish: str = ""
    piece: int = 12
    chunks: Sequence[Any] = ()
    raw: str = ""
    flood: str = ""
    cut: Place = ""
    hang: Place = ""
    write_size: int = 0
    rate: float = 0
    newline: str = "\n"
    comments: bool = False
    done_mark: bool = True
    status: int = 200
    error: str = "it failed"
    error_type: str = ""
    body: str = ""
    echo_key: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)


def step_from(value: Step | str | Mapping[str, Any]) -> Step:
    """A step from a step, a text, or the fields of one (`calls` as mappings)."""
    if isinstance(value, Step):
        return value
    if isinstance(value, str):
        return Step(text=value)
    fields = dict(value)
    fields["calls"] = [each if isinstance(each, Call) else Call(**each) for each in fields.get("calls", ())]
    return Step(**fields)


def pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def events(step: Step, dialect: Dialect, model: str) -> Iterator[tuple[Place, bytes]]:
    """Each event's bytes, and which part of the answer it belongs to."""
    if step.raw:
        yield "text", step.raw.encode()
        return
    made = _openai(step, model) if dialect == "openai" else _anthropic(step, model)
    for number, (place, name, data) in enumerate(made):
        lines = [f"event: {name}"] if name else []
        if step.comments and number % 2 == 0:
            lines.insert(0, ": keep-alive")
        text = data if isinstance(data, str) else _json(data)
        lines += [f"data: {text}", "", ""]
        yield place, step.newline.join(lines).encode()


def _json(data: Any) -> str:
    """Half a character can only be written as an escape."""
    text = json.dumps(data, ensure_ascii=False)
    return json.dumps(data) if any("\ud800" <= each <= "\udfff" for each in text) else text


Event = tuple[Place, str, Any]


def _openai(step: Step, model: str) -> Iterator[Event]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": model,
            "choices": [choice],
        }

    if step.chunks:
        yield from (("text", "", each) for each in step.chunks)
    else:
        yield "before", "", chunk({"role": "assistant", "content": ""})
        yield from (("text", "", chunk({"reasoning_content": each})) for each in pieces(step.reasoning, step.piece))
        yield from (("text", "", chunk({"content": each})) for each in pieces(step.text, step.piece))
        for index, call in enumerate(step.calls):
            head = {"index": index, "id": call.id or f"call_{index}", "type": "function"}
            opened = {**head, "function": {"name": call.name, "arguments": ""}}
            yield "tool", "", chunk({"tool_calls": [opened]})
            for each in pieces(call.text(), step.piece):
                yield "tool", "", chunk({"tool_calls": [{"index": index, "function": {"arguments": each}}]})
        yield "", "", chunk({}, step.finish or ("tool_calls" if step.calls else "stop"))
        if step.usage:
            yield "", "", {**chunk({}), "choices": [], "usage": openai_usage(step.usage)}
    if step.done_mark:
        yield "", "", "[DONE]"


def openai_usage(usage: Mapping[str, int]) -> dict[str, Any]:
    prompt, completion = usage.get("prompt", 0), usage.get("completion", 0)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": usage.get("cached", 0)},
        "completion_tokens_details": {"reasoning_tokens": usage.get("reasoning", 0)},
    }


def _anthropic(step: Step, model: str) -> Iterator[Event]:
    def event(kind: str, **data: Any) -> tuple[str, dict[str, Any]]:
        return kind, {"type": kind, **data}

    def block(index: int, place: Place, start: dict[str, Any], deltas: Sequence[dict[str, Any]]) -> Iterator[Event]:
        yield place, *event("content_block_start", index=index, content_block=start)
        for each in deltas:
            yield place, *event("content_block_delta", index=index, delta=each)
        yield place, *event("content_block_stop", index=index)

    if step.chunks:
        yield from (("text", each["type"], each) for each in step.chunks)
        return
    usage = anthropic_usage(step.usage)
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": []}
    yield "before", *event("message_start", message={**head, "usage": {**usage, "output_tokens": 1}})
    yield "before", *event("ping")
    for index, (place, start, deltas) in enumerate(_blocks(step)):
        yield from block(index, place, start, deltas)
    reason = step.finish or ("tool_use" if step.calls else "end_turn")
    yield "", *event("message_delta", delta={"stop_reason": reason}, usage={"output_tokens": usage["output_tokens"]})
    if step.done_mark:
        yield "", *event("message_stop")


def _blocks(step: Step) -> Iterator[tuple[Place, dict[str, Any], list[dict[str, Any]]]]:
    if step.reasoning:
        thoughts = [{"type": "thinking_delta", "thinking": each} for each in pieces(step.reasoning, step.piece)]
        thoughts.append({"type": "signature_delta", "signature": step.signature})
        yield "text", {"type": "thinking", "thinking": "", "signature": ""}, thoughts
    if step.redacted:
        yield "text", {"type": "redacted_thinking", "data": step.redacted}, []
    if step.text:
        said = [{"type": "text_delta", "text": each} for each in pieces(step.text, step.piece)]
        yield "text", {"type": "text", "text": ""}, said
    for number, call in enumerate(step.calls):
        written = [{"type": "input_json_delta", "partial_json": each} for each in pieces(call.text(), step.piece)]
        start = {"type": "tool_use", "id": call.id or f"toolu_{number}", "name": call.name, "input": {}}
        yield "tool", start, written


def anthropic_usage(usage: Mapping[str, int]) -> dict[str, int]:
    cached, written = usage.get("cached", 0), usage.get("cache_write", 0)
    return {
        "input_tokens": usage.get("prompt", 0) - cached - written,
        "output_tokens": usage.get("completion", 0),
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": written,
    }


def error_body(step: Step, dialect: Dialect, key: str) -> str:
    """The body of an answer whose status is not 200."""
    if step.body:
        return step.body.replace("{key}", key)
    message = f"{step.error} {key}" if step.echo_key else step.error
    error = {"message": message, "type": step.error_type or "error"}
    return json.dumps(
        {"error": {**error, "code": step.error_type or None}}
        if dialect == "openai"
        else {"type": "error", "error": error}
    )
