"""The official SDKs' own clients for a test server, and what their accumulators make of its streams.

A client reads no certificates: the server is on loopback, and a property makes a client for each of its examples.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import anthropic
import openai

from tests.support.provider_server import ProviderServer

KEY = "sk-test-planted-0123456789abcdef"


@contextlib.asynccontextmanager
async def openai_client(server: ProviderServer) -> AsyncIterator[openai.AsyncOpenAI]:
    http, url = openai.DefaultAsyncHttpxClient(verify=False), server.openai_url
    async with openai.AsyncOpenAI(api_key=KEY, base_url=url, max_retries=0, http_client=http) as client:
        yield client


@contextlib.asynccontextmanager
async def anthropic_client(server: ProviderServer) -> AsyncIterator[anthropic.AsyncAnthropic]:
    http, url = anthropic.DefaultAsyncHttpxClient(verify=False), server.anthropic_url
    async with anthropic.AsyncAnthropic(api_key=KEY, base_url=url, max_retries=0, http_client=http) as client:
        yield client


@dataclass
class Accumulated:
    """An answer as an SDK accumulated it. `calls`: name and arguments (a custom call's: its text)."""

    text: str = ""
    reasoning: str = ""
    opaque: list[str] = field(default_factory=list)
    calls: list[tuple[str, Any]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    refusal: str = ""
    phases: list[str | None] = field(default_factory=list)
    stop: str | None = ""
    tokens: tuple[int, int, int] = (0, 0, 0)  # of the prompt, cached of it, of the answer
    whole: Any = None


async def by_responses(server: ProviderServer, **body: Any) -> Accumulated:
    """What `client.responses.stream` makes of the next answer."""
    asked: dict[str, Any] = {"model": "tiny-1", "input": "hi", "store": False, **body}
    async with openai_client(server) as client, client.responses.stream(**asked) as stream:
        response = await stream.get_final_response()
    return response_read(response)


def response_read(response: Any) -> Accumulated:
    result = Accumulated(whole=response, stop=response.status)
    for item in response.output:
        match item.type:
            case "message":
                result.phases.append(item.phase)
                result.text += "".join(part.text for part in item.content if part.type == "output_text")
                result.refusal += "".join(part.refusal for part in item.content if part.type == "refusal")
            case "reasoning":
                result.reasoning += "\n\n".join(part.text for part in item.summary)
                result.reasoning += "".join(part.text for part in item.content or ())
                result.opaque.append(item.encrypted_content)
            case "function_call":
                result.calls.append((item.name, item.arguments))
                result.ids.append(item.call_id)
            case "custom_tool_call":
                result.calls.append((item.name, item.input))
                result.ids.append(item.call_id)
    if usage := response.usage:
        result.tokens = (usage.input_tokens, usage.input_tokens_details.cached_tokens, usage.output_tokens)
    return result


async def by_messages(server: ProviderServer, **body: Any) -> Accumulated:
    """What `client.messages.stream` makes of the next answer."""
    asked: dict[str, Any] = {
        "model": "tiny-1",
        "max_tokens": 64,
        "messages": [{"role": "user", "content": "hi"}],
        **body,
    }
    async with anthropic_client(server) as client, client.messages.stream(**asked) as stream:
        message = await stream.get_final_message()
    result = Accumulated(whole=message, stop=message.stop_reason)
    for block in message.content:
        match block.type:
            case "text":
                result.text += block.text
            case "thinking":
                result.reasoning += block.thinking
                result.opaque.append(block.signature)
            case "redacted_thinking":
                result.opaque.append(block.data)
            case "tool_use":
                result.calls.append((block.name, block.input))
                result.ids.append(block.id)
    read, written = message.usage.cache_read_input_tokens or 0, message.usage.cache_creation_input_tokens or 0
    result.tokens = (message.usage.input_tokens + read + written, read, message.usage.output_tokens)
    return result


async def by_chat(server: ProviderServer, **body: Any) -> Accumulated:
    """What `client.chat.completions.stream` makes of the next answer."""
    asked: dict[str, Any] = {
        "model": "tiny-1",
        "messages": [{"role": "user", "content": "hi"}],
        "stream_options": {"include_usage": True},
        **body,
    }
    async with openai_client(server) as client, client.chat.completions.stream(**asked) as stream:
        completion = await stream.get_final_completion()
    [choice] = completion.choices
    message = choice.message
    result = Accumulated(whole=completion, stop=choice.finish_reason, text=message.content or "")
    result.reasoning = getattr(message, "reasoning_content", "") or ""
    result.refusal = message.refusal or ""
    for call in message.tool_calls or ():
        result.calls.append((call.function.name, call.function.arguments))
        result.ids.append(call.id)
    if usage := completion.usage:
        cached = usage.prompt_tokens_details.cached_tokens if usage.prompt_tokens_details else 0
        result.tokens = (usage.prompt_tokens, cached or 0, usage.completion_tokens)
    return result
