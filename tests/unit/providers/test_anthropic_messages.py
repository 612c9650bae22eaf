from __future__ import annotations

import base64
import itertools
import json

import pytest
from anthropic.types.message_create_params import MessageCreateParamsStreaming

from core.protocol.messages import AssistantMessage, Attachment, ToolCall, ToolMessage, UserMessage, WireAnswer
from core.providers.anthropic_messages import MessageAnswer, MessagesWire, build_options
from core.providers.base import ModelRequest, ToolSpec
from core.providers.catalog.capabilities import find_capabilities
from core.providers.wire.request_bytes import RequestEncoder
from tests.support.model_server.typed_bodies import faults_of
from tests.support.provider_calls import messages_body, messages_bytes

OPUS = "claude-opus-5-5"
SPECS = tuple(ToolSpec(name=name, description=name, parameters={"type": "object"}) for name in ("a", "b"))
PNG = Attachment(digest="d1", media_type="image/png", name="shot.png", size=3, width=1, height=1)
PDF = Attachment(digest="d2", media_type="application/pdf", name="paper.pdf", size=4, pages=1)
BYTES = {"d1": b"png", "d2": b"%PDF"}


def asked(*messages, **fields):
    arguments = {"model": OPUS, "system": "S", "tools": SPECS, "session": "s1", "blobs": BYTES.__getitem__, **fields}
    return ModelRequest(messages=messages, **arguments)


def user(content="hi", origin="user", **fields):
    return UserMessage(content=content, origin=origin, **fields)


def result(number, content="r", **fields):
    return ToolMessage(call_id=f"ours{number}", content=content, **fields)


def answered(encoder, *history, items, model=OPUS):
    """What a model answered to this history, as it stands in the log."""
    request = asked(*history, model=model)
    sent = encoder.encode(MessagesWire(request, provider="anthropic", is_marked=True), request)
    calls = tuple(
        ToolCall(id=f"ours{number}", name=item["name"], arguments=json.dumps(item["input"]), wire_id=item["id"])
        for number, item in enumerate(item for item in items if item["type"] == "tool_use")
    )
    text = "".join(item["text"] for item in items if item["type"] == "text")
    wire = WireAnswer(wire="messages", items=tuple(items), binding=sent.binding)
    return AssistantMessage(content=text, tool_calls=calls, model=f"anthropic/{model}", wire=wire)


def thinking(text="Hm.", signature="sig"):
    return {"type": "thinking", "thinking": text, "signature": signature}


def tool_use(number=0, **arguments):
    return {"type": "tool_use", "id": f"toolu_{number}", "name": "a", "input": arguments, "caller": {"type": "direct"}}


STEP = [thinking(), {"type": "redacted_thinking", "data": "x"}, {"type": "text", "text": "Look."}, tool_use(0, x=1.0)]


def sent(request, encoder=None):
    return (encoder or RequestEncoder()).encode(MessagesWire(request, provider="anthropic", is_marked=True), request)


def types(message):
    return [block["type"] for block in message["content"]]


# what goes back


def test_an_answer_goes_back_block_for_block_and_its_results_under_its_own_ids():
    items = [*STEP, {"type": "something_new", "data": [1, {"b": None}]}, tool_use(1)]
    history = [user(), answered(RequestEncoder(), user(), items=items), result(0), result(1, is_error=True)]
    body = messages_body(asked(*history))
    assert body["messages"][1] == {"role": "assistant", "content": items}
    assert json.dumps(items, separators=(",", ":")).encode() in messages_bytes(asked(*history))
    assert [(block["tool_use_id"], block.get("is_error")) for block in body["messages"][2]["content"]] == [
        ("toolu_0", None),
        ("toolu_1", True),
    ]


@pytest.mark.parametrize(
    "change",
    [{"model": "claude-opus-5"}, {"system": "other"}, {"tools": SPECS[:1]}],
    ids=lambda change: next(iter(change)),
)
def test_after_other_bytes_only_what_was_said_and_called_goes_back(change):
    answer = answered(RequestEncoder(), user(), items=STEP)
    request = asked(user(), answer, result(0), **change)
    body = messages_body(request)
    assert types(body["messages"][1]) == ["text", "tool_use"]
    assert body["messages"][1]["content"][1]["id"] == body["messages"][2]["content"][0]["tool_use_id"] == "ours0"
    assert sent(request).dropped_reasoning == 1


def test_what_is_void_makes_all_that_follows_void():
    encoder = RequestEncoder()
    first = answered(encoder, user(), items=STEP)
    second = answered(encoder, user(), first, result(0), items=[thinking("So."), {"type": "text", "text": "Done."}])
    history = (user(), first, result(0), second, user("more"))
    assert sent(asked(*history), encoder).dropped_reasoning == 0
    changed = asked(user("other"), *history[1:])
    assert sent(changed, encoder).dropped_reasoning == 2
    assert b'"thinking":"' not in messages_bytes(changed, encoder)
    third = answered(encoder, *changed.messages, items=[thinking("New."), {"type": "text", "text": "x"}])
    assert sent(asked(*changed.messages, third, user("on")), encoder).dropped_reasoning == 2


def test_a_call_that_has_no_result_under_its_id_is_not_sent_as_it_came():
    answer = answered(RequestEncoder(), user(), items=STEP)
    answer = AssistantMessage(
        content=answer.content,
        tool_calls=(ToolCall(id="ours0", name="a", arguments="{}"),),
        model=answer.model,
        wire=answer.wire,
    )
    assert types(messages_body(asked(user(), answer, result(0)))["messages"][1]) == ["text", "tool_use"]


def test_a_longer_history_begins_with_the_bytes_of_the_shorter_one():
    encoder = RequestEncoder()
    first = answered(encoder, user(), items=STEP)
    history = [user(), first, result(0), user("mind", "program")]
    second = answered(encoder, *history, items=[thinking("So."), tool_use(7, y="ü")])
    call = ToolCall(id="ours9", name="a", arguments='{"y": "ü"}', wire_id="toolu_7")
    second = AssistantMessage(tool_calls=(call,), model=second.model, wire=second.wire)
    history += [second, result(9), user("late answer", "program"), user("next")]
    stops = (1, 4, 6, 7, 8)
    requests = [asked(*history[:stop], temperature=number) for number, stop in enumerate(stops)]
    incremental = [sent(request, encoder) for request in requests]
    for shorter, longer in itertools.pairwise(incremental):
        assert longer.prefix.startswith(shorter.prefix)
    assert [encoded_request.dropped_reasoning for encoded_request in incremental] == [0] * 5
    assert [sent(request).prefix for request in requests] == [encoded_request.prefix for encoded_request in incremental]


def test_results_of_a_step_stand_first_and_other_words_are_messages_of_their_own():
    calls = tuple(ToolCall(id=f"ours{number}", name="a", arguments="{}") for number in range(2))
    body = messages_body(
        asked(
            user("a"),
            user("b"),
            AssistantMessage(tool_calls=calls),
            result(0),
            user("between", "program"),
            result(1),
            user("after", "program"),
            AssistantMessage(content="x"),
            user("c"),
        )
    )
    roles = [message["role"] for message in body["messages"]]
    assert roles == ["user", "user", "assistant", "user", "user", "assistant", "user"]
    assert types(body["messages"][3]) == ["tool_result", "tool_result", "text"]


def test_no_block_is_empty():
    body = messages_body(
        asked(
            user(" \n"),
            user("a"),
            AssistantMessage(content="  ", tool_calls=(ToolCall(id="ours0", name="a", arguments=""),)),
            result(0, " "),
            AssistantMessage(content=""),
        )
    )
    blocks = [block for message in body["messages"] for block in message["content"]]
    assert [block["type"] for block in blocks] == ["text", "tool_use", "tool_result"]
    assert blocks[2]["content"] == "(no output)"


def test_a_history_that_begins_with_an_answer_is_led_in():
    roles = [message["role"] for message in messages_body(asked(AssistantMessage(content="x"), user()))["messages"]]
    assert roles == ["user", "assistant", "user"]


def test_v3_arguments_are_an_object_even_if_the_model_wrote_none():
    texts = ('{"x": 1}', "", "[1]", '{"cut', "null")
    calls = tuple(ToolCall(id=f"c{place}", name="a", arguments=text) for place, text in enumerate(texts))
    content = messages_body(asked(user(), AssistantMessage(tool_calls=calls)))["messages"][1]["content"]
    assert [block["input"] for block in content] == [
        {"x": 1},
        {},
        *({"invalid_arguments": text} for text in ("[1]", '{"cut', "null")),
    ]


# pictures


def test_pictures_and_pdfs_go_with_words_and_with_results():
    call = AssistantMessage(tool_calls=(ToolCall(id="ours0", name="a", arguments="{}"),))
    body = messages_body(asked(user("see", attachments=(PNG, PDF)), call, result(0, "read", attachments=(PNG,))))
    picture = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(b"png").decode()}
    first, _, second = body["messages"]
    assert types(first) == ["image", "document", "text"]
    assert first["content"][0]["source"] == picture
    assert first["content"][1]["title"] == "paper.pdf"
    assert second["content"][0]["content"] == [
        {"type": "text", "text": "read"},
        {"type": "image", "source": picture},
    ]


# options


@pytest.mark.parametrize(
    ("model", "effort", "thinking", "config"),
    [
        (OPUS, "", {"type": "adaptive", "display": "summarized"}, None),
        (OPUS, "low", {"type": "adaptive", "display": "summarized"}, {"effort": "low"}),
        ("claude-opus-4-6", "", {"type": "adaptive", "display": "summarized"}, None),
        ("claude-sonnet-5-5", "none", {"type": "between_tools"}, None),
        ("claude-haiku-5-5", "none", {"type": "disabled"}, None),
        ("claude-opus-5", "none", {"type": "disabled"}, None),
        ("claude-opus-4-5", "", None, None),
        ("claude-opus-4-5", "none", None, None),
        ("claude-opus-4-5", "high", {"type": "enabled", "budget_tokens": 20_000}, None),
        ("claude-3-7-sonnet-latest", "low", {"type": "enabled", "budget_tokens": 4_096}, None),
        ("claude-3-5-haiku-latest", "", None, None),
        ("mystery-1", "", None, None),
    ],
)
def test_thinking_is_asked_for_in_the_way_of_the_model(model, effort, thinking, config):
    body = messages_body(asked(user(), model=model, effort=effort))
    assert (body.get("thinking"), body.get("output_config")) == (thinking, config)


@pytest.mark.parametrize(
    ("model", "effort", "asked_for", "limit"),
    [
        ("claude-3-haiku-20240307", "", 0, 4_096),
        ("claude-3-5-sonnet-latest", "", 0, 8_192),
        (OPUS, "", 0, 32_000),
        (OPUS, "xhigh", 0, 64_000),
        ("claude-opus-4-1", "high", 0, 32_000),
        ("claude-opus-4-5", "", 50, 50),
        (OPUS, "", 4_000, 20_000),
        ("mystery-1", "", 0, 32_000),
    ],
)
def test_an_answer_has_room_for_what_is_thought(model, effort, asked_for, limit):
    assert messages_body(asked(user(), model=model, effort=effort, max_tokens=asked_for))["max_tokens"] == limit


def test_a_budget_leaves_room_for_the_answer():
    thinking = messages_body(asked(user(), model="claude-opus-4-1", effort="high", max_tokens=3_000))["thinking"]
    assert thinking == {"type": "enabled", "budget_tokens": 17_976}


def test_calls_that_were_made_without_thinking_are_answered_without():
    call = AssistantMessage(tool_calls=(ToolCall(id="ours0", name="a", arguments="{}"),))
    old = {"model": "claude-opus-4-5", "effort": "high"}
    assert "thinking" not in messages_body(asked(user(), call, result(0), **old))
    assert "thinking" in messages_body(asked(user(), call, result(0), user("next"), **old))


@pytest.mark.parametrize(
    ("model", "effort", "kept"),
    [("claude-opus-4-5", "", True), ("claude-opus-4-5", "low", False), (OPUS, "", False), ("mystery-1", "", True)],
)
def test_a_temperature_is_sent_where_it_is_taken(model, effort, kept):
    assert ("temperature" in messages_body(asked(user(), model=model, effort=effort, temperature=0.5))) is kept


def test_what_a_server_refuses_is_left_out():
    able = find_capabilities("anthropic", OPUS, wire="messages")
    request = asked(user(), effort="high")
    assert build_options(request, able, without={"display"})["thinking"] == {"type": "adaptive"}
    assert "output_config" not in build_options(request, able, without={"output_config"})
    assert build_options(request, able, without={"thinking"}).keys() == {"max_tokens", "stream", "cache_control"}
    assert "cache_control" not in build_options(request, able, without={"cache_control"})


def test_the_cache_is_marked_once_for_the_history_and_once_for_the_head():
    history = [user(f"{number}") if number % 2 == 0 else AssistantMessage(content="x") for number in range(9)]
    body = messages_body(asked(*history))
    assert body["cache_control"] == {"type": "ephemeral"}
    assert json.dumps(body["messages"]).count("cache_control") == 0
    assert json.dumps([body["system"], body["tools"]]).count("cache_control") == 1


@pytest.mark.parametrize("model", [OPUS, "claude-opus-4-5", "claude-sonnet-5-5", "claude-opus-4-6"])
@pytest.mark.parametrize("effort", ["", "none", "high"])
def test_every_body_is_one_that_the_sdk_s_types_allow(model, effort):
    history = (user(), answered(RequestEncoder(), user(), items=STEP, model=model), result(0, attachments=(PNG, PDF)))
    body = messages_body(asked(*history, model=model, effort=effort))
    assert faults_of(MessageCreateParamsStreaming, body) == []


# answers


def test_blank_text_and_thinking_that_nothing_follows_do_not_go_back():
    answer = MessageAnswer(set())
    blocks = [thinking(), {"type": "text", "text": "\n\n"}, tool_use(), {"type": "text", "text": ""}, thinking("cut")]
    for index, block in enumerate(blocks):
        list(answer.feed({"type": "content_block_start", "index": index, "content_block": block}))
    wire_answer = answer.build_wire_answer("b")
    assert wire_answer is not None
    assert [item["type"] for item in wire_answer.items] == ["thinking", "tool_use"]
    assert MessageAnswer(set()).build_wire_answer("b") is None
