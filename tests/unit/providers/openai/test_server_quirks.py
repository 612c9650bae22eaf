"""A server that wants user and assistant by turns gets them so, and its requests only grow."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ProviderError
from core.protocol.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from core.providers.catalog.capabilities import find_capabilities
from core.providers.openai.chat import ChatWire
from core.providers.openai.negotiation import Negotiation
from core.providers.openai.server_quirks import ServerQuirks
from core.providers.wire.request_bytes import RequestEncoder
from tests.support.provider_calls import request

BY_TURNS = ServerQuirks(alternates=True)


def written(history: list[Message], encoder: RequestEncoder, quirks: ServerQuirks = BY_TURNS) -> list[dict[str, Any]]:
    asked = request(*history, session="s")
    able = find_capabilities("p", asked.model, wire="chat")
    wire = ChatWire(asked, provider="p", capabilities=able, quirks=quirks)
    return json.loads(encoder.encode(wire, asked).build_body({}))["messages"]


def is_by_turns(messages: list[dict[str, Any]]) -> bool:
    """The rule of the templates: calls and their results do not count."""
    roles = [message["role"] for message in messages if message["role"] != "tool" and not message.get("tool_calls")]
    body = roles[1:] if roles[0] == "system" else roles
    return "system" not in body and all(one != other for one, other in itertools.pairwise(body))


def step(number: int, text: str) -> list[Message]:
    call = ToolCall(id=f"c{number}", name="grep", arguments="{}")
    return [AssistantMessage(content=text, tool_calls=(call,)), ToolMessage(call_id=call.id, content=f"r{number}")]


TURNS = st.lists(st.sampled_from(["user", "program", "call", "call with text", "answer", "silent"]), max_size=12)


@given(TURNS)
def test_any_history_is_by_turns_and_what_was_said_is_never_taken_back(turns):
    history: list[Message] = [UserMessage(content="first")]
    encoder = RequestEncoder()
    before = written(history, encoder)
    for number, turn in enumerate(turns):
        match turn:
            case "call" | "call with text":
                history += step(number, "I look." if turn == "call with text" else "")
            case "answer" | "silent":
                history.append(AssistantMessage(content=f"a{number}" if turn == "answer" else ""))
            case _:
                history.append(UserMessage(content=f"u{number}", origin=turn))
        messages = written(history, encoder)
        assert is_by_turns(messages)
        assert written(history, RequestEncoder()) == messages
        assert messages[: len(before) - 1] == before[:-1]
        old, new = before[-1], messages[len(before) - 1]
        assert new["role"] == old["role"]
        assert str(new.get("content") or "").startswith(str(old.get("content") or ""))
        before = messages
    transcript = json.dumps(before)
    assert all(message.content in transcript for message in history)


class Refusal(Exception):
    def __init__(self, body: object, status: int) -> None:
        super().__init__("refused")
        self.body, self.status_code = body, status


def learnt(text: str, status: int, negotiation: Negotiation, *history: Message) -> tuple[bool, ProviderError]:
    failure = ProviderError("refused", code="server_failed" if status >= 500 else "request_invalid")
    asked = request(*history)
    return negotiation.adapt(failure, Refusal({"message": text}, status), "chat", asked, {}), failure


@pytest.mark.parametrize("status", [400, 500])
@pytest.mark.parametrize(
    "text",
    [
        "Conversation roles must alternate user/assistant/user/assistant/...",
        "After the optional system message, conversation roles must alternate user and assistant roles but for calls",
        "A conversation must alternate between user and assistant roles.",
        'roles must alternate between "user" and "assistant", but found multiple "user" roles in a row',
        "After the (optional) system message(s), user and assistant roles should be alternating.",
        "Unexpected role 'user' after role 'tool'",
        "deepseek-reasoner does not support successive user or assistant messages (messages[1] and messages[2]).",
        "Please ensure that multiturn requests alternate between user and model.",
    ],
)
def test_a_server_that_counts_turns_is_understood_and_in_the_end_called_without_tools(text, status):
    negotiation = Negotiation("The server", official=False)
    assert learnt(text, status, negotiation, UserMessage(content="x"))[0]
    assert negotiation.quirks == BY_TURNS
    assert learnt(text, status, negotiation, UserMessage(content="x"))[0]
    assert not negotiation.quirks.takes_system
    again, failure = learnt(text, status, negotiation, UserMessage(content="x"))
    assert (again, failure.code) == (False, "tools_unsupported")


@pytest.mark.parametrize("text", ["System role not supported", "Developer instruction is not enabled for MODEL"])
def test_a_server_without_a_system_prompt_gets_it_in_the_first_prompt(text):
    negotiation = Negotiation("The server", official=False)
    assert learnt(text, 400, negotiation, UserMessage(content="x"))[0]
    [first] = written([UserMessage(content="x")], RequestEncoder(), negotiation.quirks)
    assert first == {"role": "user", "content": "You help.\n\nx"}


@pytest.mark.parametrize(
    "text",
    [
        "Input should be a valid string: messages.2.content",
        "messages[2].content: invalid type: null, expected a string",
        "'content' is a required property",
        "Invalid value for 'content': expected a string, got null.",
        'can only concatenate str (not "NoneType") to str',
    ],
)
def test_a_server_that_wants_a_text_beside_calls_gets_one(text):
    negotiation = Negotiation("The server", official=False)
    history = [UserMessage(content="x"), *step(1, "")]
    for blank in ("", " "):
        assert learnt(text, 422 if blank else 500, negotiation, *history)[0]
        assert written(history, RequestEncoder(), negotiation.quirks)[2]["content"] == blank
    assert not learnt(text, 422, negotiation, *history)[0]
    assert not learnt(text, 422, Negotiation("The server", official=False), UserMessage(content="x"))[0]
