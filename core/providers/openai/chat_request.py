"""The history as a chat completions request. A function of the request alone: the same history gives the same bytes."""

from __future__ import annotations

from typing import Any, Final, assert_never

from core.protocol.messages import AssistantMessage, Message, ToolMessage, UserMessage
from core.providers.base import ModelRequest, ToolSpec
from core.providers.wire.wire_text import arguments_text, clean, tool_name

OFFICIAL_HOST: Final = "api.openai.com"
NO_OUTPUT: Final = "(no output)"


def body_of(request: ModelRequest, *, official: bool) -> dict[str, Any]:
    """The request's JSON. `official`: it goes to OpenAI itself, which has fields that others refuse."""
    body: dict[str, Any] = {
        "model": request.model,
        "messages": messages_of(request),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.tools:
        body["tools"] = [_tool(each) for each in request.tools]
    if request.max_tokens:
        body["max_completion_tokens" if official else "max_tokens"] = request.max_tokens
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.effort:
        body["reasoning_effort"] = request.effort
    if official and request.session:
        body["prompt_cache_key"] = request.session
    return body


def messages_of(request: ModelRequest) -> list[dict[str, Any]]:
    """The system prompt and the history."""
    head = [{"role": "system", "content": clean(request.system)}] if request.system else []
    return [*head, *(each for message in request.messages if (each := _message(message)) is not None)]


def _message(message: Message) -> dict[str, Any] | None:
    match message:
        case UserMessage():
            return {"role": "user", "content": clean(message.content)}
        case ToolMessage():
            content = clean(message.content) or NO_OUTPUT
            return {"role": "tool", "tool_call_id": message.call_id, "content": content}
        case AssistantMessage():
            return _assistant(message)
        case _:
            assert_never(message)


def _assistant(message: AssistantMessage) -> dict[str, Any] | None:
    """None if there is nothing in it: no API takes an assistant's message without content and calls."""
    if not message.content and not message.tool_calls:
        return None
    found: dict[str, Any] = {"role": "assistant", "content": clean(message.content) or None}
    if message.tool_calls:
        found["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": tool_name(call.name), "arguments": arguments_text(call.arguments)},
            }
            for call in message.tool_calls
        ]
    return found


def _tool(spec: ToolSpec) -> dict[str, Any]:
    function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", "function": function}
