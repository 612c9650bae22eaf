"""The history as a messages request. A function of the request alone, but for the cache marks, which move forward.

The API's rules: roles alternate, the results of all calls of a step stand first in the next user message, no block is
empty, at most four cache marks; thinking goes back unchanged, and only to the model that thought it.
"""

from __future__ import annotations

import re
from typing import Any, Final, assert_never

from core.protocol.messages import AssistantMessage, Message, ToolMessage, UserMessage
from core.providers.base import ModelRequest
from core.providers.wire.wire_text import arguments_object, clean, tool_name

Block = dict[str, Any]
MARK: Final = {"type": "ephemeral"}
MARKED_TURNS: Final = 2
NO_OUTPUT: Final = "(no output)"
_SMALL_ANSWERS: Final = ((re.compile(r"claude-3-(opus|haiku|sonnet)"), 4096), (re.compile(r"claude-3-5-"), 8192))
DEFAULT_ANSWER: Final = 32_000
_FIXED_BUDGET: Final = re.compile(r"claude-(3-7|(opus|sonnet|haiku)-4(-[015]|-20\d{6})?(-20\d{6}|@\d+)?$)")
_BUDGETS: Final = {"minimal": 1024, "low": 4096, "medium": 10_000, "high": 20_000, "xhigh": 26_000, "max": 26_000}
_EFFORTS: Final = {"minimal": "low"}


def body_of(request: ModelRequest, *, provider: str) -> dict[str, Any]:
    """The request's JSON. `provider` is the id under which the models of this API are known to a session."""
    body: dict[str, Any] = {
        "model": request.model,
        "max_tokens": request.max_tokens or answer_limit(request.model),
        "messages": _marked(messages_of(request, provider=provider)),
        "stream": True,
    }
    if request.system.strip():
        body["system"] = [{"type": "text", "text": clean(request.system), "cache_control": MARK}]
    if request.tools:
        tools: list[Block] = [
            {"name": each.name, "description": each.description, "input_schema": each.parameters}
            for each in request.tools
        ]
        tools[-1]["cache_control"] = MARK
        body["tools"] = tools
    body |= _thinking(request, body["max_tokens"])
    if request.temperature is not None and "thinking" not in body:
        body["temperature"] = request.temperature
    return body


def answer_limit(model: str) -> int:
    """How many tokens an answer may have by default."""
    return next((limit for pattern, limit in _SMALL_ANSWERS if pattern.search(model)), DEFAULT_ANSWER)


def _thinking(request: ModelRequest, max_tokens: int) -> dict[str, Any]:
    """Older models take a number of tokens for thinking, newer ones decide within an effort."""
    effort = request.effort
    if effort not in _BUDGETS:
        return {}
    if not _FIXED_BUDGET.search(request.model):
        return {"thinking": {"type": "adaptive"}, "output_config": {"effort": _EFFORTS.get(effort, effort)}}
    budget = min(_BUDGETS[effort], max_tokens - 1024)
    return {"thinking": {"type": "enabled", "budget_tokens": budget}} if budget >= 1024 else {}


def messages_of(request: ModelRequest, *, provider: str) -> list[dict[str, Any]]:
    """Alternating user and assistant messages, beginning with a user's."""
    names = {request.model, f"{provider}/{request.model}"}
    turns: list[dict[str, Any]] = []
    for message in request.messages:
        role, blocks = _blocks(message, names)
        if not blocks:
            continue
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"].extend(blocks)
        else:
            turns.append({"role": role, "content": blocks})
    for turn in turns:
        if turn["role"] == "user":
            turn["content"].sort(key=lambda block: block["type"] != "tool_result")
    if turns and turns[0]["role"] == "assistant":
        turns.insert(0, {"role": "user", "content": [{"type": "text", "text": "(the conversation goes on)"}]})
    return turns


def _blocks(message: Message, names: set[str]) -> tuple[str, list[Block]]:
    match message:
        case UserMessage():
            return "user", _text(message.content)
        case ToolMessage():
            return "user", [_result(message)]
        case AssistantMessage():
            thoughts = _thoughts(message) if message.model in names else []
            said = [*_text(message.content), *_calls(message)]
            return "assistant", [*thoughts, *said] if said else []
        case _:
            assert_never(message)


def _text(content: str) -> list[Block]:
    return [{"type": "text", "text": clean(content)}] if content.strip() else []


def _result(message: ToolMessage) -> Block:
    content = clean(message.content)
    block: Block = {"type": "tool_result", "tool_use_id": message.call_id, "content": content.strip() and content}
    block["content"] = block["content"] or NO_OUTPUT
    return block | ({"is_error": True} if message.is_error else {})


def _thoughts(message: AssistantMessage) -> list[Block]:
    """Only what the API signed; a thought that was interrupted has no signature."""
    found: list[Block] = []
    for each in message.reasoning:
        if each.redacted:
            found.append({"type": "redacted_thinking", "data": each.redacted})
        elif each.signature:
            found.append({"type": "thinking", "thinking": each.text, "signature": each.signature})
    return found


def _calls(message: AssistantMessage) -> list[Block]:
    return [
        {"type": "tool_use", "id": call.id, "name": tool_name(call.name), "input": arguments_object(call.arguments)}
        for call in message.tool_calls
    ]


def _marked(turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same with a cache mark at the end of the last user turns: the longest prefix, and the one before it."""
    users = [turn for turn in turns if turn["role"] == "user"]
    for turn in users[-MARKED_TURNS:]:
        turn["content"][-1] = {**turn["content"][-1], "cache_control": MARK}
    return turns
