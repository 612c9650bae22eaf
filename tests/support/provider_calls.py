"""Asking a provider and putting its answer together, for tests."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from core.protocol.messages import AssistantMessage, Message, ToolCall, Usage, UserMessage, WireAnswer, WireProtocol
from core.providers.anthropic_messages import MessagesWire, build_options
from core.providers.anthropic_provider import AnthropicProvider
from core.providers.base import (
    AnswerReport,
    Delta,
    ModelRequest,
    Provider,
    ReasoningDelta,
    RequestReport,
    StreamEnd,
    TextDelta,
    ToolCallDelta,
    ToolSpec,
    UsageReport,
)
from core.providers.catalog.capabilities import find_capabilities
from core.providers.connection.endpoint import Endpoint
from core.providers.openai.provider import OpenAIProvider
from core.providers.wire.request_bytes import RequestEncoder
from core.secrets import Secret
from tests.support.provider_server import ProviderServer
from tests.support.provider_streams import Dialect

KEY = "sk-test-planted-0123456789abcdef"
GREP = ToolSpec(name="grep", description="Search.", parameters={"type": "object", "properties": {}})


@dataclass
class Answer:
    text: str = ""
    reasoning: str = ""
    signatures: list[str] = field(default_factory=list)
    redacted: list[str] = field(default_factory=list)
    calls: list[dict[str, str]] = field(default_factory=list)
    usage: Usage | None = None
    finish: str = ""
    wire: WireAnswer | None = None
    report: RequestReport = field(default_factory=RequestReport)
    deltas: list[Delta] = field(default_factory=list)

    def message(self, model: str) -> AssistantMessage:
        """As the loop keeps it."""
        calls = tuple(
            ToolCall(id=f"ours_{call['id']}", name=call["name"], arguments=call["arguments"], wire_id=call["id"])
            for call in self.calls
        )
        return AssistantMessage(content=self.text, tool_calls=calls, model=model, wire=self.wire)

    def add(self, delta: Delta) -> None:
        assert not self.finish, "a delta came after the last one"
        self.deltas.append(delta)
        match delta:
            case TextDelta(text):
                self.text += text
            case ReasoningDelta(text, signature, redacted):
                self.reasoning += text
                self.signatures += [signature] if signature else []
                self.redacted += [redacted] if redacted else []
            case ToolCallDelta(index, call_id, name, arguments):
                if index == len(self.calls):
                    self.calls.append({"id": "", "name": "", "arguments": ""})
                call = self.calls[index]
                call["id"] += call_id
                call["name"] += name
                call["arguments"] += arguments
            case UsageReport(usage):
                self.usage = usage
            case AnswerReport(wire):
                self.wire = wire
            case RequestReport():
                self.report = delta
            case StreamEnd(reason):
                self.finish = reason


def request(*messages: Message, **fields: Any) -> ModelRequest:
    arguments = {"model": "tiny-1", "system": "You help.", "tools": (GREP,), **fields}
    return ModelRequest(messages=messages or (UserMessage(content="hi"),), **arguments)


async def ask(provider: Provider, asked: ModelRequest | None = None, into: Answer | None = None) -> Answer:
    """The whole answer; `into` keeps what came before an error."""
    answer = into or Answer()
    async for delta in provider.stream(asked or request()):
        answer.add(delta)
    return answer


def messages_bytes(asked: ModelRequest, encoder: RequestEncoder | None = None, provider: str = "anthropic") -> bytes:
    """The body of a messages request. `encoder`: the one that the requests before went through."""
    able = find_capabilities(provider, asked.model, wire="messages")
    wire = MessagesWire(asked, provider=provider, is_marked=True)
    return (encoder or RequestEncoder()).encode(wire, asked).build_body(build_options(asked, able))


def messages_body(asked: ModelRequest) -> Any:
    return json.loads(messages_bytes(asked))


def connect(server: ProviderServer, dialect: Dialect, **fields: Any) -> OpenAIProvider | AnthropicProvider:
    """A provider for a test server, which speaks `dialect` by itself."""
    arguments: dict[str, Any] = {
        "id": dialect,
        "label": "The server",
        "base_url": server.anthropic_url if dialect == "anthropic" else server.openai_url,
        "find_key": lambda: (Secret(KEY), "environment variable TEST_KEY"),
        **fields,
    }
    endpoint = Endpoint(**arguments)
    speaks: WireProtocol = "responses" if dialect == "responses" else "chat"
    return AnthropicProvider(endpoint) if dialect == "anthropic" else OpenAIProvider(endpoint, speaks=speaks)
