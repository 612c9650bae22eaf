from __future__ import annotations

import json

import pytest

from core.protocol.messages import AssistantMessage, ReasoningBlock, ToolCall, ToolMessage, UserMessage
from core.providers.base import ModelRequest, ToolSpec
from core.providers.catalog.capabilities import Capabilities
from core.providers.openai.chat import ChatWire
from core.providers.wire.request_bytes import RequestEncoder
from core.providers.wire.wire_values import clean, clean_tool_name, encode_arguments
from tests.support.provider_calls import messages_body

SPECS = tuple(ToolSpec(name=name, description=name, parameters={"type": "object"}) for name in ("a", "b"))


def asked(*messages, **fields):
    return ModelRequest(**{"model": "m-1", "system": "S", "tools": SPECS, "messages": messages, **fields})


def openai(*messages, official=False, **fields):
    request = asked(*messages, **fields)
    wire = ChatWire(request, provider="openai", capabilities=Capabilities(), official=official)
    return json.loads(RequestEncoder().encode(wire, request).build_body(wire.tail()))


def anthropic(*messages, **fields):
    return messages_body(asked(*messages, **fields))


def user(content="hi", origin="user"):
    return UserMessage(content=content, origin=origin)


def calling(*arguments, content="", **fields):
    calls = tuple(ToolCall(id=f"c{place}", name="a", arguments=argument) for place, argument in enumerate(arguments))
    return AssistantMessage(content=content, tool_calls=calls, **fields)


class TestChatCompletions:
    def test_a_round_of_calls_keeps_its_order(self):
        body = openai(user(), calling("{}"), ToolMessage(call_id="c0", content=""), user("x", "program"))
        assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "tool", "user"]
        assert body["messages"][2]["content"] is None
        assert body["messages"][3] == {"role": "tool", "tool_call_id": "c0", "content": "(no output)"}

    def test_an_empty_answer_is_left_out(self):
        body = openai(user(), AssistantMessage(reasoning=(ReasoningBlock(text="hm"),)), user())
        assert [message["role"] for message in body["messages"]] == ["system", "user", "user"]

    def test_only_openai_itself_gets_its_own_fields(self):
        theirs = openai(user(), max_tokens=9, session="s1")
        ours = openai(user(), max_tokens=9, session="s1", official=True)
        assert (theirs["max_tokens"], "prompt_cache_key" in theirs) == (9, False)
        assert (ours["max_completion_tokens"], ours["prompt_cache_key"]) == (9, "s1")

    def test_what_was_not_asked_for_is_not_sent(self):
        body = openai(user(), tools=(), system="")
        assert body.keys() == {"model", "messages", "stream", "stream_options"}
        body = openai(user(), temperature=0.0, effort="low")
        assert (body["temperature"], body["reasoning_effort"]) == (0.0, "low")

    def test_a_longer_history_begins_with_the_shorter_one(self):
        history = [user(), calling('{ "x":1 }', "bad {"), ToolMessage(call_id="c0", content="r")]
        short, long = openai(*history), openai(*history, user("more"))
        assert json.dumps(long["messages"]).startswith(json.dumps(short["messages"])[:-1])


@pytest.mark.parametrize("build", [openai, anthropic])
def test_text_that_is_no_unicode_can_be_sent(build):
    body = build(
        user("a\udce9b"), calling('{"x": "\ud800"}'), ToolMessage(call_id="c0", content="\udfff"), system="\udcff"
    )
    sent = json.dumps(body, ensure_ascii=False).encode()
    assert "�".encode() in sent


@pytest.mark.parametrize("build", [openai, anthropic])
def test_v4_a_name_that_the_model_made_up_can_be_sent_back(build):
    call = ToolCall(id="c0", name="no such tool!" + "x" * 90, arguments="{}")
    body = json.dumps(build(user(), AssistantMessage(tool_calls=(call,)), ToolMessage(call_id="c0", content="unknown")))
    assert clean_tool_name(call.name) in body
    assert len(clean_tool_name(call.name)) == 64
    assert clean_tool_name("") == "unknown_tool"


def test_well_formed_arguments_keep_their_bytes():
    assert encode_arguments('{ "x" : 1 }') == '{ "x" : 1 }'
    assert encode_arguments("") == "{}"
    assert json.loads(encode_arguments("[[" * 100_000)) == {"invalid_arguments": "[[" * 100_000}
    assert clean("plain ü 😀") == "plain ü 😀"
    assert clean("\ud83d\ude00") == "😀"
