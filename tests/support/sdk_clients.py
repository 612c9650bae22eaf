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
    found = Accumulated(whole=response, stop=response.status)
    for item in response.output:
        match item.type:
            case "message":
                found.phases.append(item.phase)
                found.text += "".join(each.text for each in item.content if each.type == "output_text")
                found.refusal += "".join(each.refusal for each in item.content if each.type == "refusal")
            case "reasoning":
                found.reasoning += "\n\n".join(each.text for each in item.summary)
                found.reasoning += "".join(each.text for each in item.content or ())
                found.opaque.append(item.encrypted_content)
            case "function_call":
                found.calls.append((item.name, item.arguments))
                found.ids.append(item.call_id)
            case "custom_tool_call":
                found.calls.append((item.name, item.input))
                found.ids.append(item.call_id)
    if usage := response.usage:
        found.tokens = (usage.input_tokens, usage.input_tokens_details.cached_tokens, usage.output_tokens)
    return found


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
    found = Accumulated(whole=message, stop=message.stop_reason)
    for block in message.content:
        match block.type:
            case "text":
                found.text += block.text
            case "thinking":
                found.reasoning += block.thinking
                found.opaque.append(block.signature)
            case "redacted_thinking":
                found.opaque.append(block.data)
            case "tool_use":
                found.calls.append((block.name, block.input))
                found.ids.append(block.id)
    read, written = message.usage.cache_read_input_tokens or 0, message.usage.cache_creation_input_tokens or 0
    found.tokens = (message.usage.input_tokens + read + written, read, message.usage.output_tokens)
    return found


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
    said = choice.message
    found = Accumulated(whole=completion, stop=choice.finish_reason, text=said.content or "")
    found.reasoning = getattr(said, "reasoning_content", "") or ""
    found.refusal = said.refusal or ""
    for call in said.tool_calls or ():
        found.calls.append((call.function.name, call.function.arguments))
        found.ids.append(call.id)
    if usage := completion.usage:
        cached = usage.prompt_tokens_details.cached_tokens if usage.prompt_tokens_details else 0
        found.tokens = (usage.prompt_tokens, cached or 0, usage.completion_tokens)
    return found
