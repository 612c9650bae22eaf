from __future__ import annotations

import base64
import json
from typing import Any

import anthropic
import pytest

from tests.support.provider_server import provider_server
from tests.support.provider_streams import Call, Say, Step, Think
from tests.support.sdk_clients import anthropic_client, by_messages

HI = [{"role": "user", "content": "hi"}]
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()
GREP = {"name": "grep", "description": "Search.", "input_schema": {"type": "object", "properties": {}}}
USE = {"type": "tool_use", "id": "toolu_1", "name": "grep", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "found"}


def body(**fields: Any) -> dict[str, Any]:
    return {"model": "claude-opus-5-5", "max_tokens": 32_000, "messages": HI, "stream": True, **fields}


def after(*blocks: dict[str, Any], use: dict[str, Any] = USE) -> list[dict[str, Any]]:
    return [*HI, {"role": "assistant", "content": [use]}, {"role": "user", "content": list(blocks)}]


def image(kind: str, data: str = PNG) -> list[dict[str, Any]]:
    source = {"type": "base64", "media_type": kind, "data": data}
    return [{"role": "user", "content": [{"type": "image", "source": source}]}]


async def refusal_of(asked: dict[str, Any]) -> str:
    """What the SDK is told, empty if the request is answered."""
    async with provider_server(["Good."], strict=True) as server, anthropic_client(server) as client:
        try:
            await client.post("/v1/messages", cast_to=object, body=asked)
        except anthropic.BadRequestError as error:
            return json.dumps(error.body, ensure_ascii=False).replace('\\"', '"')
        return ""


MARK = {"type": "ephemeral"}
MARKED = [{"role": "user", "content": [{"type": "text", "text": "a", "cache_control": MARK}] * 4}]
ADAPTIVE = {"type": "adaptive", "display": "summarized"}
GOOD = [
    body(),
    body(thinking=ADAPTIVE, output_config={"effort": "max"}, tools=[GREP], system="You help."),
    body(messages=after(RESULT, {"type": "text", "text": "and more"}), tools=[GREP], cache_control=MARK),
    body(messages=after({**RESULT, "content": [image("image/png")[0]["content"][0]]}), tools=[GREP]),
    body(messages=MARKED),
    body(model="claude-opus-5", thinking={"type": "disabled"}, output_config={"effort": "high"}),
    body(model="claude-sonnet-5-5", thinking={"type": "between_tools"}, output_config={"effort": "high"}),
    body(model="claude-haiku-4-5", thinking={"type": "enabled", "budget_tokens": 1024}),
    body(model="claude-haiku-4-5", temperature=0.2),
    body(model="claude-opus-4-6", thinking=ADAPTIVE, output_config={"effort": "max"}),
    body(diagnostics={"previous_message_id": None}),
]


@pytest.mark.parametrize("asked", GOOD, ids=str)
async def test_what_the_api_takes(asked):
    assert await refusal_of(asked) == ""


BAD = {
    "wire: Extra inputs are not permitted": body(wire=1),
    "messages.0.content.0.index: Extra": body(
        messages=[{"role": "user", "content": [{"type": "text", "text": "a", "index": 0}]}]
    ),
    "max_tokens: Field required": {"model": "claude-opus-5-5", "messages": HI, "stream": True},
    "max_tokens: 200000 > 128000": body(max_tokens=200_000),
    "`temperature` is deprecated for this model": body(temperature=0.2),
    "`top_k` is deprecated for this model": body(model="claude-opus-4-7", top_k=3),
    'thinking.type.disabled" is not supported for this model. Use "thinking.type.adaptive"': body(
        thinking={"type": "disabled"}
    ),
    'thinking.type.enabled" is not supported for this model': body(
        model="claude-opus-4-8", thinking={"type": "enabled", "budget_tokens": 2000}
    ),
    'Use "thinking.type.between_tools"': body(model="claude-sonnet-5-5", thinking={"type": "disabled"}),
    "not supported with effort 'xhigh'": body(
        model="claude-opus-5", thinking={"type": "disabled"}, output_config={"effort": "xhigh"}
    ),
    "between_tools\" is not supported with effort 'max'": body(
        model="claude-sonnet-5-5", thinking={"type": "between_tools"}, output_config={"effort": "max"}
    ),
    "forces tool use": body(tools=[GREP], tool_choice={"type": "any"}),
    "does not support effort level 'xhigh'": body(model="claude-opus-4-6", output_config={"effort": "xhigh"}),
    "does not support the effort parameter": body(model="claude-haiku-4-5", output_config={"effort": "low"}),
    "greater than or equal to 1024": body(
        model="claude-haiku-4-5", thinking={"type": "enabled", "budget_tokens": 1000}
    ),
    "must be greater than `thinking.budget_tokens`": body(
        model="claude-haiku-4-5", thinking={"type": "enabled", "budget_tokens": 32_000}
    ),
    "may only be set to 1": body(
        model="claude-haiku-4-5", thinking={"type": "enabled", "budget_tokens": 2000}, temperature=0.5
    ),
    "Expected `thinking` or `redacted_thinking`, but found `tool_use`": body(
        model="claude-haiku-4-5", thinking={"type": "enabled", "budget_tokens": 2000}, messages=after(RESULT)
    ),
    "prefill": body(messages=[*HI, {"role": "assistant", "content": "So"}]),
    "A maximum of 4 blocks with cache_control may be provided. Found 5": body(messages=MARKED, cache_control=MARK),
    "must be non-empty": body(messages=[{"role": "user", "content": [{"type": "text", "text": ""}]}]),
    "non-whitespace": body(system=[{"type": "text", "text": " \n"}]),
    'first message must use the "user" role': body(messages=[{"role": "assistant", "content": "I"}, *HI]),
    "without `tool_result` blocks immediately after: toolu_1": body(
        messages=[*HI, {"role": "assistant", "content": [USE]}, *HI]
    ),
    "messages.1: `tool_use` ids were found without": body(messages=after({"type": "text", "text": "x"}, RESULT)),
    "unexpected `tool_use_id` found in `tool_result` blocks: toolu_1": body(
        messages=[{"role": "user", "content": [RESULT]}]
    ),
    "Found multiple `tool_result` blocks with id: toolu_1": body(messages=after(RESULT, RESULT)),
    "must be unique": body(messages=[*after(RESULT), *after(RESULT)[1:]]),
    "String should match": body(messages=after({**RESULT, "tool_use_id": "a.b"}, use={**USE, "id": "a.b"})),
    "Tool names must be unique": body(tools=[GREP, GREP]),
    "tools.0.custom.name": body(tools=[{**GREP, "name": "a b"}]),
    "the image appears to be a image/png image": body(messages=image("image/jpeg")),
    "Could not process image": body(messages=image("image/png", base64.b64encode(b"none").decode())),
    "invalid base64 data": body(messages=image("image/png", "%%")),
    "image exceeds 5 MB maximum": body(
        messages=image("image/png", base64.b64encode(b"\x89PNG" + bytes(6_000_000)).decode())
    ),
}


@pytest.mark.parametrize("words", BAD)
async def test_what_the_api_refuses(words):
    assert words in await refusal_of(BAD[words])


async def test_half_a_character_is_no_json():
    asked = body(messages=[{"role": "user", "content": "\ud83d"}])
    async with provider_server(["Good."], strict=True) as server, anthropic_client(server) as client:
        with pytest.raises(anthropic.BadRequestError, match="not valid JSON: no low surrogate"):
            await client.post("/v1/messages", cast_to=object, content=json.dumps(asked).encode())


WORK = Step(parts=[Think(text="I look."), Call(name="grep"), Think(text="hidden", redacted=True)])
SAID = Step(parts=[Think(text="Now I know."), Say(text="Done.")])


async def session(server: Any, change: Any = None, **more: Any) -> Any:
    """Two requests through the SDK: what the first was answered with goes back with the second."""
    first = {**body(thinking=ADAPTIVE, tools=[GREP], system="You help."), **more}
    del first["stream"]
    answer = (await by_messages(server, **first)).whole
    blocks = [block.to_dict() for block in answer.content]
    results = [{**RESULT, "tool_use_id": block["id"]} for block in blocks if block["type"] == "tool_use"]
    messages = [*first["messages"], {"role": "assistant", "content": blocks}, {"role": "user", "content": results}]
    again = json.loads(json.dumps({**first, "messages": messages}))
    if change:
        change(again)
    return await by_messages(server, **again)


async def test_thinking_that_comes_back_as_it_was_is_taken():
    async with provider_server([WORK, SAID], strict=True) as server:
        response = await session(
            server, lambda again: again.update(cache_control=MARK, output_config={"effort": "low"})
        )
        assert server.rules is not None
        assert (server.rules.refusals, server.rules.remarks) == ([], [])
    assert response.text == "Done."


def a_word_of_the_system(again: Any) -> None:
    again["system"] += " It is Monday."


def a_tool(again: Any) -> None:
    again["tools"].append({**GREP, "name": "late"})


def an_earlier_message(again: Any) -> None:
    again["messages"][0]["content"] = "hi (reminder: be brief)"


def a_call(again: Any) -> None:
    again["messages"][1]["content"][1]["input"] = {"x": 1}


def a_thought_left_out(again: Any) -> None:
    again["messages"][1]["content"][0] = {"type": "text", "text": "I look."}


@pytest.mark.parametrize("change", [a_word_of_the_system, a_tool, an_earlier_message, a_call, a_thought_left_out])
async def test_a_changed_prefix_makes_thinking_void(change):
    async with provider_server([WORK, SAID], strict=True) as server:
        with pytest.raises(anthropic.BadRequestError, match="The block is bound to a different conversation"):
            await session(server, change)


def the_thought(again: Any) -> None:
    again["messages"][1]["content"][0]["thinking"] += "!"


def the_signature(again: Any) -> None:
    again["messages"][1]["content"][0]["signature"] = "c2lnbmF0dXJl"


def the_opaque_data(again: Any) -> None:
    again["messages"][1]["content"][2]["data"] = "AAAA"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (the_thought, "cannot be modified"),
        (the_signature, "Invalid `signature`"),
        (the_opaque_data, "Invalid `signature`"),
    ],
)
async def test_thinking_that_was_altered_is_refused(change, words):
    async with provider_server([WORK, SAID], strict=True) as server:
        with pytest.raises(anthropic.BadRequestError, match=words):
            await session(server, change)


async def test_thinking_may_be_left_out_from_the_beginning_on():
    def forget(again: Any) -> None:
        del again["messages"][1]["content"][0]

    async with provider_server([WORK, SAID], strict=True) as server:
        assert (await session(server, forget)).text == "Done."


async def test_thinking_of_another_model_is_dropped_without_an_error_and_remarked():
    async with provider_server([WORK, SAID], strict=True) as server:
        await session(server, lambda again: again.update(model="claude-fable-5-2"))
        assert server.rules is not None
        assert server.rules.remarks == ["messages.1.content.0: model_mismatch", "messages.1.content.2: model_mismatch"]


async def test_older_models_bind_no_prefix():
    async with provider_server([WORK, SAID], strict=True) as server:
        response = await session(server, a_word_of_the_system, model="claude-opus-4-8")
    assert response.text == "Done."


async def test_thinking_is_silent_where_nothing_is_said_of_its_display():
    async with provider_server([SAID, SAID], strict=True) as server:
        silent = await by_messages(server, model="claude-opus-5-5", max_tokens=32_000)
        visible = await by_messages(server, model="claude-opus-5-5", max_tokens=32_000, thinking=ADAPTIVE)
    assert (silent.reasoning, visible.reasoning) == ("", "Now I know.")
    assert len(silent.opaque) == 1


async def test_the_cache_is_hit_by_what_is_marked_and_begins_alike():
    asked = {"system": "You help. " * 100, "tools": [GREP], "cache_control": MARK}
    longer = [*HI, {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "more"}]
    async with provider_server(["Good."], strict=True, repeat=True) as server:
        first = await by_messages(server, **asked)
        again = await by_messages(server, **asked, messages=longer)
        effort = await by_messages(server, **asked, messages=longer, output_config={"effort": "low"})
        plain = await by_messages(server, system=asked["system"], tools=[GREP])
    assert first.tokens[1] == 0
    assert again.tokens[1] > 250
    assert again.tokens[0] - again.tokens[1] < 40
    assert (effort.tokens[1], plain.tokens[1]) == (0, 0)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"system": "You never help."}, "system_changed"),
        ({"tools": [{**GREP, "name": "other"}]}, "tools_changed"),
        ({"messages": [{"role": "user", "content": "something else"}]}, "messages_changed"),
        ({"model": "claude-sonnet-5"}, "model_changed"),
        ({"diagnostics": {"previous_message_id": "msg_77"}}, "previous_message_not_found"),
        ({}, None),
    ],
    ids=str,
)
async def test_the_api_says_why_its_cache_was_missed(change, reason):
    asked = {"model": "claude-opus-5", "system": "You help.", "tools": [GREP], "max_tokens": 4096}
    async with provider_server(["Good."], strict=True, repeat=True) as server:
        first = await by_messages(server, **asked, diagnostics={"previous_message_id": None})
        diagnostics = {"diagnostics": {"previous_message_id": first.whole.id}}
        again = await by_messages(server, **{**asked, **diagnostics, **change})
    assert first.whole.diagnostics.cache_miss_reason is None
    cache_miss_reason = again.whole.diagnostics.cache_miss_reason
    assert (cache_miss_reason.type if cache_miss_reason else None) == reason
