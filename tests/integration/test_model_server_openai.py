from __future__ import annotations

import json
from typing import Any

import openai
import pytest

from tests.support.provider_server import provider_server
from tests.support.provider_streams import Call, Say, Step, Think
from tests.support.sdk_clients import by_chat, by_responses, openai_client

HI = [{"role": "user", "content": "hi"}]
GREP = {"type": "function", "name": "grep", "parameters": {"type": "object", "properties": {}}, "strict": False}
PATCH = {"type": "custom", "name": "apply_patch", "description": "Edits files."}
CHAT_GREP = {"type": "function", "function": {"name": "grep", "parameters": {"type": "object"}}}
CALL = {"type": "function_call", "call_id": "call_1", "name": "grep", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "found"}
CUSTOM = {"type": "custom_tool_call", "call_id": "call_2", "name": "apply_patch", "input": "x"}
PICTURE = {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,iVBORw0KGgo="}
USED = {"id": "call_1", "type": "function", "function": {"name": "grep", "arguments": "{}"}}
ASKED = {"role": "assistant", "content": None, "tool_calls": [USED]}
FOUND = {"role": "tool", "tool_call_id": "call_1", "content": "found"}


def body(*items: Any, **fields: Any) -> dict[str, Any]:
    include = ["reasoning.encrypted_content"]
    return {"model": "gpt-6-sol", "input": [*HI, *items], "store": False, "include": include, "stream": True, **fields}


def chat(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "gpt-5.4", "messages": [*HI, *messages], "stream": True, **fields}


async def refusal_of(path: str, asked: dict[str, Any]) -> str:
    """What the SDK is told, empty if the request is answered."""
    async with provider_server(["Good."], strict=True) as server, openai_client(server) as client:
        try:
            await client.post(path, cast_to=object, body=asked)
        except openai.APIStatusError as error:
            return f"{error.message} {error.body}".replace('\\"', '"')
        return ""


GOOD = [
    body(tools=[GREP, PATCH], reasoning={"effort": "max", "summary": "auto"}, prompt_cache_key="s" * 64),
    body(CALL, OUTPUT, CUSTOM, {"type": "custom_tool_call_output", "call_id": "call_2", "output": "ok"}),
    body(CALL, {**OUTPUT, "output": [PICTURE]}, {"role": "user", "content": [PICTURE]}),
    body({"type": "configuration_update", "reasoning": {"effort": "low"}}),
    body(instructions="You help.", max_output_tokens=32_000, text={"verbosity": "low"}),
    body(model="gpt-4.1", temperature=0.2),
]


@pytest.mark.parametrize("asked", GOOD, ids=str)
async def test_what_responses_take(asked):
    assert await refusal_of("/responses", asked) == ""


BAD = {
    "Unknown parameter: 'wire'": body(wire=1),
    "Unknown parameter: 'input[1].wire_id'": body({**CALL, "wire_id": "x"}, OUTPUT),
    "Missing required parameter: 'input[1].call_id'": body({**CUSTOM, "call_id": None} | {"call_id": 1}),
    "Unsupported parameter: 'temperature' is not supported with this model": body(temperature=0.2),
    "Unsupported value: 'minimal' is not supported with the 'gpt-6-sol' model": body(reasoning={"effort": "minimal"}),
    "Unsupported value: 'none' is not supported with the 'gpt-6.1-sol' model": body(
        model="gpt-6.1-sol", reasoning={"effort": "none"}
    ),
    "Unsupported parameter: 'reasoning'": body(model="gpt-4.1", reasoning={"effort": "low"}),
    "Custom tools are not supported": body(model="gpt-4.1", tools=[PATCH]),
    "Invalid 'prompt_cache_key': string too long": body(prompt_cache_key="s" * 65),
    "Invalid 'max_output_tokens'": body(max_output_tokens=3),
    "Invalid 'tools[0].name'": body(tools=[{**GREP, "name": "a b"}]),
    "Invalid 'tools[1].description': string too long": body(tools=[GREP, {**PATCH, "description": "x" * 1025}]),
    "Duplicate tool name: grep": body(tools=[GREP, GREP]),
    "No tool call found for function call output with call_id call_1": body(OUTPUT),
    "No tool call found for custom tool call output with call_id call_1": body(
        CALL, OUTPUT, {"type": "custom_tool_call_output", "call_id": "call_1", "output": "ok"}
    ),
    "No tool output found for function call call_1": body(CALL),
    "No tool output found for custom tool call call_2": body(CUSTOM),
    "Duplicate item found with id fc_1": body({**CALL, "id": "fc_1"}, OUTPUT, {**CALL, "id": "fc_1"}, OUTPUT),
    "Item with id 'rs_1' not found. Items are not persisted": body({"type": "reasoning", "id": "rs_1", "summary": []}),
    "could not be verified": body({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}),
    "Expected a base64-encoded data URL": body({"role": "user", "content": [{**PICTURE, "image_url": "a.png"}]}),
}


@pytest.mark.parametrize("words", BAD)
async def test_what_responses_refuse(words):
    message = await refusal_of("/responses", BAD[words])
    assert words in message or (words.startswith("Missing") and "Invalid value for 'input[1].call_id'" in message)


CHAT_GOOD = [
    chat(ASKED, FOUND, tools=[CHAT_GREP], reasoning_effort="high", max_completion_tokens=100),
    chat(model="gpt-4.1", temperature=0.2, max_tokens=100, tools=[CHAT_GREP]),
    chat(model="gpt-6-sol", reasoning_effort="none", tools=[CHAT_GREP]),
    chat(model="gpt-6-sol"),
    chat(model="tiny-1", temperature=0.2, max_tokens=100, options={"num_ctx": 1}),
    chat({**ASKED, "reasoning_content": "I look."}, FOUND, model="deepseek-chat"),
]


@pytest.mark.parametrize("asked", CHAT_GOOD, ids=str)
async def test_what_chat_completions_take(asked):
    assert await refusal_of("/chat/completions", asked) == ""


CHAT_BAD = {
    "Function tools with reasoning_effort are not supported for gpt-6-sol in /v1/chat/completions. To use function "
    "tools, use /v1/responses or set reasoning_effort to 'none'.": chat(model="gpt-6-sol", tools=[CHAT_GREP]),
    "not supported for gpt-6.1-sol in /v1/chat/completions. To use function tools, use /v1/responses.": chat(
        model="gpt-6.1-sol", tools=[CHAT_GREP]
    ),
    "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead": chat(max_tokens=100),
    "'temperature' does not support 0.2 with this model": chat(temperature=0.2),
    "'stop' is not supported with this model": chat(stop=["x"]),
    "Unknown parameter: 'wire'": chat(wire=1),
    "Unknown parameter: 'messages[1].reasoning_content'": chat({**ASKED, "reasoning_content": "I look."}, FOUND),
    "did not have response messages: call_1": chat(ASKED, *HI),
    "must be a response to a preceeding message with 'tool_calls'": chat(FOUND),
    "expected a string, got null": chat({"role": "assistant", "content": None}, *HI),
    "Invalid 'tools[0].function.description': string too long": chat(
        tools=[{"type": "function", "function": {"name": "grep", "description": "x" * 1025}}]
    ),
}


@pytest.mark.parametrize("words", CHAT_BAD)
async def test_what_chat_completions_refuse(words):
    assert words in await refusal_of("/chat/completions", CHAT_BAD[words])


WORK = Step(parts=[Think(text="I look."), Say(text="Looking.", phase="commentary"), Call(name="grep")])
ALONE = Step(parts=[Think(text="I look."), Call(name="grep")])


async def session(server: Any, change: Any = None, **more: Any) -> Any:
    """Two requests through the SDK: the items that the first was answered with go back with the second."""
    first = {"model": "gpt-6-sol", "input": [*HI], "tools": [GREP], "store": False, **more}
    answer = (await by_responses(server, **first)).whole
    items = [entry.to_dict() for entry in answer.output]
    for entry in items:
        for name in ("parsed_arguments", "parsed"):
            entry.pop(name, None)
            [part.pop(name, None) for part in entry.get("content") or ()]
    outputs = [{**OUTPUT, "call_id": call["call_id"]} for call in items if call["type"] == "function_call"]
    again = json.loads(json.dumps({**first, "input": [*HI, *items, *outputs]}))
    if change:
        change(again)
    return await by_responses(server, **again)


async def test_items_that_come_back_as_they_were_are_taken():
    async with provider_server([WORK, "Done."], strict=True) as server:
        response = await session(server, instructions="You help. " * 200)
        assert server.rules is not None
        assert (server.rules.refusals, server.rules.remarks) == ([], [])
    assert response.text == "Done."
    assert response.tokens[1] > 500


def no_follower(again: Any) -> None:
    del again["input"][2:]


def another_follower(again: Any) -> None:
    del again["input"][2]["id"]


def no_reasoning(again: Any) -> None:
    del again["input"][1]


def another_secret(again: Any) -> None:
    again["input"][1]["encrypted_content"] = "gAAAAA-unfinished"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (no_follower, "Item 'rs_1_0' of type 'reasoning' was provided without its required following item."),
        (another_follower, "without its required following item"),
        (no_reasoning, "Item 'fc_1_1' of type 'function_call' was provided without its required 'reasoning' item"),
        (another_secret, "could not be verified"),
    ],
)
async def test_reasoning_goes_with_what_followed_it(change, words):
    async with provider_server([ALONE, "Done."], strict=True) as server:
        with pytest.raises(openai.APIStatusError, match=words):
            await session(server, change)


def no_phase(again: Any) -> None:
    del again["input"][2]["phase"]


def another_model(again: Any) -> None:
    again["model"] = "gpt-6-luna"


@pytest.mark.parametrize(
    ("change", "remark"), [(no_phase, "msg_1_1: phase changed"), (another_model, "rs_1_0: model_mismatch")]
)
async def test_what_only_costs_quality_is_remarked(change, remark):
    async with provider_server([WORK, "Done."], strict=True) as server:
        assert (await session(server, change)).text == "Done."
        assert server.rules is not None
        assert server.rules.remarks == [remark]


SIGNED = Call(name="grep", extra={"extra_content": {"google": {"thought_signature": "abc"}}})


@pytest.mark.parametrize(
    ("model", "given", "back", "words"),
    [
        ("deepseek-chat", Step(reasoning="I look.", calls=[Call(name="grep")]), {"reasoning_content": "I look."}, ""),
        ("kimi-k3", Step(reasoning="I look.", calls=[Call(name="grep")]), {}, "must be passed back to the API"),
        ("gemini-4-pro", Step(calls=[SIGNED]), {}, "missing a thought_signature"),
        ("gemini-4-pro", Step(calls=[SIGNED]), {"calls": SIGNED.extra}, ""),
    ],
)
async def test_what_other_hosts_gave_they_need_back(model, given, back, words):
    async with provider_server([given, "Done."], strict=True) as server, openai_client(server) as client:
        first = await by_chat(server, model=model)
        used = {**USED, "id": first.ids[0], **back.pop("calls", {})}
        result = {**FOUND, "tool_call_id": first.ids[0]}
        asked = {**chat({**ASKED, **back, "tool_calls": [used]}, result), "model": model}
        message = ""
        try:
            await client.post("/chat/completions", cast_to=object, body=asked)
        except openai.BadRequestError as error:
            message = error.message
    assert message.find(words) >= 0 if words else message == ""


async def test_ids_of_calls_are_never_given_twice():
    step = Step(calls=[Call(name="a"), Call(name="b")])
    async with provider_server([step] * 3, strict=True) as server:
        id_lists = [(await by(server)).ids for by in (by_chat, by_responses, by_chat)]
    assert len({call_id for ids in id_lists for call_id in ids}) == 6
