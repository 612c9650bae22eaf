from __future__ import annotations

import json

import anthropic
import openai
import pytest

from tests.support.provider_server import provider_server
from tests.support.provider_streams import Call, Say, Step, Think
from tests.support.sdk_clients import anthropic_client, by_chat, by_messages, by_responses, openai_client

GREP = Call(name="grep", arguments={"pattern": "naïve – 日本", "path": "."})
PATCH = Call(name="apply_patch", arguments={"patch": "*** Begin Patch\n+é\n*** End Patch"}, freeform="patch")
WORK = Step(
    parts=[
        Think(text="First I look at it.\n\nThen I search."),
        Say(text="I search for it now.", phase="commentary"),
        GREP,
        Think(text="And then I patch."),
        PATCH,
    ],
    usage={"prompt": 1000, "completion": 50, "cached": 600, "cache_write": 100, "reasoning": 30},
)
ODD = [{}, {"newline": "\r\n"}, {"comments": True}, {"write_size": 3}, {"piece": 1}]
READERS = {"openai": by_chat, "responses": by_responses, "anthropic": by_messages}
SAID = ("I search for it now.", "First I look at it.\n\nThen I search.And then I patch.")
on_every_wire = pytest.mark.parametrize("dialect", READERS)


def step(**fields: object) -> Step:
    return Step(**{**WORK.__dict__, **fields})


@pytest.mark.parametrize("how", ODD, ids=str)
async def test_the_sdk_accumulates_a_response(how):
    async with provider_server([step(**how)]) as server:
        response = await by_responses(server)
    assert (response.text, response.reasoning) == SAID
    assert response.calls == [("grep", GREP.text()), ("apply_patch", PATCH.free_text())]
    assert response.ids == ["call_0", "call_1"]
    assert response.phases == ["commentary"]
    assert len(response.opaque) == 2
    assert response.stop == "completed"
    assert response.tokens == (1000, 600, 50)
    assert [part.type for part in response.whole.output] == [
        "reasoning",
        "message",
        "function_call",
        "reasoning",
        "custom_tool_call",
    ]


@pytest.mark.parametrize("how", ODD, ids=str)
async def test_the_sdk_accumulates_a_message(how):
    async with provider_server([step(**how)]) as server:
        message = await by_messages(server)
    assert (message.text, message.reasoning) == SAID
    assert message.calls == [("grep", GREP.arguments), ("apply_patch", PATCH.arguments)]
    assert [block.type for block in message.whole.content] == ["thinking", "text", "tool_use", "thinking", "tool_use"]
    assert message.stop == "tool_use"
    assert message.tokens == (1000, 600, 50)
    assert message.whole.usage.output_tokens_details.thinking_tokens == 30


@pytest.mark.parametrize("how", ODD, ids=str)
async def test_the_sdk_accumulates_a_chat_completion(how):
    async with provider_server([step(**how)]) as server:
        completion = await by_chat(server)
    assert completion.text == "I search for it now."
    assert completion.calls == [("grep", GREP.text()), ("apply_patch", PATCH.text())]
    assert completion.stop == "tool_calls"
    assert completion.tokens == (1000, 600, 50)


async def test_the_encrypted_reasoning_of_an_unfinished_item_is_another():
    async with provider_server([WORK]) as server, openai_client(server) as client:
        events = [event async for event in await client.responses.create(model="m", input="hi", stream=True)]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    added = next(event for event in events if event.type == "response.output_item.added")
    done = next(event for event in events if event.type == "response.output_item.done")
    assert added.item.encrypted_content != done.item.encrypted_content


async def test_raw_and_redacted_reasoning():
    parts = [Think(text="as it was thought", raw=True), Think(text="hidden", redacted=True), Say(text="Done.")]
    async with provider_server([Step(parts=parts)] * 2) as server:
        response, message = await by_responses(server), await by_messages(server)
    assert response.reasoning == "as it was thought"
    assert response.whole.output[0].content[0].type == "reasoning_text"
    assert [block.type for block in message.whole.content] == ["thinking", "redacted_thinking", "text"]


@on_every_wire
async def test_a_refusal(dialect):
    async with provider_server([Step(refusal="I can't help with that.")]) as server:
        answer = await READERS[dialect](server)
    assert "I can't help with that." in (answer.refusal, answer.text)
    assert answer.stop == {"openai": "stop", "responses": "completed", "anthropic": "refusal"}[dialect]


@pytest.mark.parametrize(
    ("finish", "reason"), [("length", "max_output_tokens"), ("refused", "content_filter")], ids=str
)
async def test_a_response_that_is_incomplete(finish, reason):
    async with provider_server([Step(text="Half of it", finish=finish)]) as server, openai_client(server) as client:
        *_, last = [event async for event in await client.responses.create(model="m", input="hi", stream=True)]
    assert last.type == "response.incomplete"
    assert last.response.incomplete_details.reason == reason
    assert last.response.output[0].content[0].text == "Half of it"


async def test_a_response_that_failed():
    failed = Step(text="Half", finish="failed", error="The model broke.", error_type="server_error")
    async with provider_server([failed]) as server, openai_client(server) as client:
        *_, last = [event async for event in await client.responses.create(model="m", input="hi", stream=True)]
    assert last.type == "response.failed"
    assert (last.response.error.code, last.response.error.message) == ("server_error", "The model broke.")


@pytest.mark.parametrize("reason", ["end_turn", "max_tokens", "stop_sequence", "pause_turn", "refusal"])
async def test_every_stop_reason_of_a_message(reason):
    async with provider_server([Step(text="Said.", finish=reason)]) as server:
        message = await by_messages(server)
    assert message.stop == reason


@on_every_wire
async def test_an_error_in_the_middle_is_one_for_the_sdk(dialect):
    broken = Step(text="So far so good, and then it breaks " * 5, error_at="text", error="Overloaded")
    async with provider_server([broken]) as server:
        with pytest.raises((openai.APIError, anthropic.APIError, RuntimeError), match=r"Overloaded|completed"):
            await READERS[dialect](server)


@on_every_wire
async def test_a_call_can_come_without_an_id_or_with_that_of_another(dialect):
    calls = [Call(name="a", id="same"), Call(name="b", id="same"), Call(name="c", id=None)]
    async with provider_server([Step(calls=calls, raw="")]) as server, openai_client(server) as client:
        path = {"openai": "/chat/completions", "responses": "/responses", "anthropic": "/messages"}[dialect]
        body = {"model": "m", "messages": [], "stream": True}
        raw = await client.post(path, cast_to=object, body=body, options={"headers": {"Accept": "text/event-stream"}})
    text = raw if isinstance(raw, str) else json.dumps(raw)
    assert text.count("same") >= 2


async def test_what_a_model_can_do():
    async with provider_server(models=["claude-opus-5-5", "gpt-6-sol"]) as server:
        async with anthropic_client(server) as client:
            model = await client.models.retrieve("claude-opus-5-5")
            with pytest.raises(anthropic.NotFoundError):
                await client.models.retrieve("claude-none")
        async with openai_client(server) as client:
            names = [entry.id async for entry in client.models.list()]
    assert model.capabilities.thinking.types.adaptive.supported
    assert not model.capabilities.thinking.types.disabled.supported
    assert model.capabilities.effort.xhigh.supported
    assert model.max_tokens == 128_000
    assert names == ["claude-opus-5-5", "gpt-6-sol"]
