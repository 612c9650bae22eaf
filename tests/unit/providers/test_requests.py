from __future__ import annotations

import json

import pytest

from core.protocol.messages import AssistantMessage, ReasoningBlock, ToolCall, ToolMessage, UserMessage
from core.providers.anthropic import request as anthropic_request
from core.providers.base import ModelRequest, ToolSpec
from core.providers.openai import chat_request as openai_request
from core.providers.wire.wire_text import arguments_text, clean, tool_name

SPECS = tuple(ToolSpec(name=name, description=name, parameters={"type": "object"}) for name in ("a", "b"))


def asked(*messages, **fields):
    return ModelRequest(**{"model": "m-1", "system": "S", "tools": SPECS, "messages": messages, **fields})


def openai(*messages, official=False, **fields):
    return openai_request.body_of(asked(*messages, **fields), official=official)


def anthropic(*messages, **fields):
    return anthropic_request.body_of(asked(*messages, **fields), provider="anthropic")


def user(content="hi", origin="user"):
    return UserMessage(content=content, origin=origin)


def calling(*arguments, content="", **fields):
    calls = tuple(ToolCall(id=f"c{place}", name="a", arguments=each) for place, each in enumerate(arguments))
    return AssistantMessage(content=content, tool_calls=calls, **fields)


def marks(body):
    return json.dumps(body).count('"cache_control"')


class TestChatCompletions:
    def test_a_round_of_calls_keeps_its_order(self):
        body = openai(user(), calling("{}"), ToolMessage(call_id="c0", content=""), user("x", "program"))
        assert [each["role"] for each in body["messages"]] == ["system", "user", "assistant", "tool", "user"]
        assert body["messages"][2]["content"] is None
        assert body["messages"][3] == {"role": "tool", "tool_call_id": "c0", "content": "(no output)"}

    def test_an_empty_answer_is_left_out(self):
        body = openai(user(), AssistantMessage(reasoning=(ReasoningBlock(text="hm"),)), user())
        assert [each["role"] for each in body["messages"]] == ["system", "user", "user"]

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


class TestMessages:
    def test_roles_alternate_whatever_the_history(self):
        body = anthropic(
            user("a"),
            user("b"),
            calling("{}", "{}"),
            ToolMessage(call_id="c0", content="1"),
            user("reminder", "program"),
            ToolMessage(call_id="c1", content="2"),
            AssistantMessage(content="x"),
            AssistantMessage(content="y"),
            user("c"),
        )
        assert [each["role"] for each in body["messages"]] == ["user", "assistant", "user", "assistant", "user"]
        types = [block["type"] for block in body["messages"][2]["content"]]
        assert types == ["tool_result", "tool_result", "text"]

    def test_no_block_is_empty(self):
        body = anthropic(
            user(" \n"),
            user("a"),
            calling("{}", content="  "),
            ToolMessage(call_id="c0", content=" "),
            AssistantMessage(content=""),
            AssistantMessage(reasoning=(ReasoningBlock(text="t", signature="s"),), model="m-1"),
        )
        blocks = [block for message in body["messages"] for block in message["content"]]
        assert [block["type"] for block in blocks] == ["text", "tool_use", "tool_result"]
        assert blocks[2]["content"] == "(no output)"

    def test_at_most_four_cache_marks_the_last_on_the_newest_message(self):
        history = [user(f"{number}") if number % 2 == 0 else AssistantMessage(content="x") for number in range(9)]
        body = anthropic(*history)
        assert marks(body) == 4
        assert [marks(each) for each in body["messages"]] == [0] * 6 + [1, 0, 1]
        assert marks(body["system"]) == marks(body["tools"][-1]) == 1

    def test_the_history_is_the_same_but_for_the_marks(self):
        history = [user("a"), calling('{"x": 1}'), ToolMessage(call_id="c0", content="r")]
        short, long = anthropic(*history), anthropic(*history, AssistantMessage(content="x"), user("b"))
        plain = [
            json.dumps(each["messages"]).replace(', "cache_control": {"type": "ephemeral"}', "")
            for each in (short, long)
        ]
        assert plain[1].startswith(plain[0][:-1])
        assert marks(short) == marks(long) - 1 + marks(short["messages"]) - 1

    @pytest.mark.parametrize(("model", "kept"), [("m-1", True), ("anthropic/m-1", True), ("m-2", False), ("", False)])
    def test_thoughts_go_back_only_to_the_model_that_had_them(self, model, kept):
        thoughts = (
            ReasoningBlock(text="t", signature="sig"),
            ReasoningBlock(redacted="hidden"),
            ReasoningBlock(text="interrupted"),
        )
        body = anthropic(user(), calling("{}", reasoning=thoughts, model=model), ToolMessage(call_id="c0", content="r"))
        types = [block["type"] for block in body["messages"][1]["content"]]
        assert types == (["thinking", "redacted_thinking", "tool_use"] if kept else ["tool_use"])

    def test_v3_arguments_are_an_object_even_if_the_model_wrote_none(self):
        body = anthropic(user(), calling('{"x": 1}', "", "[1]", '{"cut', "null"))
        inputs = [block["input"] for block in body["messages"][1]["content"]]
        assert inputs[:2] == [{"x": 1}, {}]
        assert inputs[2:] == [{"invalid_arguments": text} for text in ("[1]", '{"cut', "null")]

    def test_a_history_that_begins_with_an_answer_is_led_in(self):
        assert [each["role"] for each in anthropic(AssistantMessage(content="x"), user())["messages"]] == [
            "user",
            "assistant",
            "user",
        ]

    @pytest.mark.parametrize(
        ("model", "limit"),
        [("claude-3-haiku-20240307", 4096), ("claude-3-5-sonnet-latest", 8192), ("claude-sonnet-5", 32_000)],
    )
    def test_each_model_has_its_own_longest_answer(self, model, limit):
        assert anthropic(user(), model=model)["max_tokens"] == limit
        assert anthropic(user(), model=model, max_tokens=50)["max_tokens"] == 50

    @pytest.mark.parametrize(
        ("model", "fixed"),
        [
            ("claude-3-7-sonnet-latest", True),
            ("claude-sonnet-4-20250514", True),
            ("claude-sonnet-4-5-20250929", True),
            ("claude-haiku-4-5", True),
            ("claude-opus-4-1", True),
            ("claude-opus-4-6", False),
            ("claude-sonnet-5-5", False),
        ],
    )
    def test_thinking_is_asked_for_in_the_way_of_the_model(self, model, fixed):
        body = anthropic(user(), model=model, effort="high", temperature=0.5)
        assert body["thinking"]["type"] == ("enabled" if fixed else "adaptive")
        assert "temperature" not in body
        assert body.get("output_config") == (None if fixed else {"effort": "high"})
        if fixed:
            assert body["thinking"]["budget_tokens"] < body["max_tokens"]

    def test_without_an_effort_nothing_is_said_of_thinking(self):
        assert not anthropic(user(), temperature=0.5).keys() & {"thinking", "output_config"}
        assert "thinking" not in anthropic(user(), model="claude-3-7-x", effort="high", max_tokens=1500)


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
    assert tool_name(call.name) in body
    assert len(tool_name(call.name)) == 64
    assert tool_name("") == "unknown_tool"


def test_well_formed_arguments_keep_their_bytes():
    assert arguments_text('{ "x" : 1 }') == '{ "x" : 1 }'
    assert arguments_text("") == "{}"
    assert json.loads(arguments_text("[[" * 100_000)) == {"invalid_arguments": "[[" * 100_000}
    assert clean("plain ü 😀") == "plain ü 😀"
    assert clean("\ud83d\ude00") == "😀"
