"""Making the body of a request with a long history: with what was encoded before, and all of it anew."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

from benchmarks.table import Result
from core.protocol.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage, WireAnswer
from core.protocol.messages import WireProtocol as WireName
from core.providers.anthropic_messages import MessagesWire, build_options
from core.providers.base import ModelRequest, ToolSpec
from core.providers.catalog.capabilities import find_capabilities
from core.providers.openai.chat import ChatWire
from core.providers.openai.responses import ResponsesWire
from core.providers.wire.request_bytes import RequestEncoder

TURNS = 200
STEPS = 5  # of a turn
LINE = "the quick brown fox jumps over the lazy dog, once more.\n"
MODELS: dict[WireName, str] = {"chat": "kimi-k3", "responses": "gpt-6.2-sol", "messages": "claude-opus-5-5"}


def measure(*, quick: bool) -> Iterator[Result]:
    """Medians over the steps of one more turn."""
    rounds = 5 if quick else 40
    for wire in MODELS:
        size, reused, anew = _bodies(wire, rounds)
        yield Result(
            what=f"the body of a request after {TURNS} turns ({size / 1e6:.1f} MB), {wire}",
            value=statistics.median(reused) * 1000,
            unit="ms",
            limit=5,
            yardstick=statistics.median(anew) * 1000,
            yardstick_name="all of it anew",
        )


def _bodies(wire: WireName, rounds: int) -> tuple[int, list[float], list[float]]:
    """The size of a body in bytes, and the seconds that it took."""
    history, encoder = _history(wire, TURNS), RequestEncoder()
    size = len(_body(wire, history, encoder))
    reused, anew = list[float](), list[float]()
    for number in range(rounds):
        history += _step(wire, f"more{number}", _binding(wire, history, encoder))
        for other, times in ((encoder, reused), (RequestEncoder(), anew)):
            begin = time.perf_counter()
            _body(wire, history, other)
            times.append(time.perf_counter() - begin)
    return size, reused, anew


def _history(wire: WireName, turns: int) -> list[Message]:
    """A conversation of its own model, each answer bound to what stood before it."""
    history: list[Message] = []
    encoder = RequestEncoder()
    for turn in range(turns):
        history.append(UserMessage(content=f"Turn {turn}. {LINE}"))
        for step in range(STEPS - 1):
            history += _step(wire, f"{turn}_{step}", _binding(wire, history, encoder))
        history.append(AssistantMessage(content=LINE * 4, model=f"bench/{MODELS[wire]}"))
    return history


def _step(wire: WireName, name: str, binding: str) -> list[Message]:
    """An answer with two calls as its API gives it, and their results."""
    calls = tuple(
        ToolCall(id=f"ours_{name}_{index}", name="grep", arguments='{"pattern": "fox"}', wire_id=f"call_{name}_{index}")
        for index in range(2)
    )
    answer = WireAnswer(wire=wire, items=_items(wire, calls), binding="" if wire == "chat" else binding)
    message = AssistantMessage(content=LINE, tool_calls=calls, model=f"bench/{MODELS[wire]}", wire=answer)
    return [message, *(ToolMessage(call_id=call.id, content=LINE * 20) for call in calls)]


def _items(wire: WireName, calls: tuple[ToolCall, ...]) -> tuple[dict[str, object], ...]:
    sealed = "c2lnbmF0dXJl" * 40
    if wire == "chat":
        called = [
            {"id": call.wire_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in calls
        ]
        return ({"role": "assistant", "content": LINE, "reasoning_content": LINE * 3, "tool_calls": called},)
    if wire == "responses":
        return (
            {"id": "rs", "type": "reasoning", "summary": [], "encrypted_content": sealed},
            {"id": "m", "type": "message", "role": "assistant", "content": [{"type": "output_text", "text": LINE}]},
            *(
                {"type": "function_call", "call_id": call.wire_id, "name": call.name, "arguments": call.arguments}
                for call in calls
            ),
        )
    return (
        {"type": "thinking", "thinking": LINE * 3, "signature": sealed},
        {"type": "text", "text": LINE},
        *({"type": "tool_use", "id": call.wire_id, "name": call.name, "input": {"pattern": "fox"}} for call in calls),
    )


def _request(wire: WireName, history: list[Message]) -> ModelRequest:
    schema = {"type": "object", "properties": {name: {"type": "string", "description": LINE} for name in "abc"}}
    tools = tuple(ToolSpec(name=f"tool{number}", description=LINE * 8, parameters=schema) for number in range(20))
    return ModelRequest(model=MODELS[wire], system=LINE * 300, tools=tools, messages=tuple(history), session="bench")


def _writer(wire: WireName, request: ModelRequest) -> ChatWire | ResponsesWire | MessagesWire:
    able = find_capabilities("bench", request.model, wire=wire)
    match wire:
        case "chat":
            return ChatWire(request, provider="bench", capabilities=able)
        case "responses":
            return ResponsesWire(request, provider="bench", capabilities=able)
    return MessagesWire(request, provider="bench", is_marked=True)


def _binding(wire: WireName, history: list[Message], encoder: RequestEncoder) -> str:
    request = _request(wire, history)
    return encoder.encode(_writer(wire, request), request).binding


def _body(wire: WireName, history: list[Message], encoder: RequestEncoder) -> bytes:
    request = _request(wire, history)
    writer = _writer(wire, request)
    encoded = encoder.encode(writer, request)
    assert not encoded.dropped_reasoning, "the history is not what was sent"
    tail = build_options(request, find_capabilities("bench", request.model, wire=wire)) if wire == "messages" else {}
    return encoded.build_body(tail if isinstance(writer, MessagesWire) else writer.tail())
