"""What hosts of chat completions want back, through the SDK, against a server that refuses requests without it."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ProviderError
from core.protocol.messages import AssistantMessage, Attachment, ToolCall, ToolMessage, UserMessage
from core.providers.base import ToolCallDelta
from core.providers.connection.failures import Api
from core.providers.openai.chat import ChatAnswer, shorten_id
from tests.support.model_server.step import Say, Think
from tests.support.provider_calls import ask, connect, request
from tests.support.provider_server import provider_server
from tests.support.provider_streams import Call, Step
from tests.support.sdk_clients import by_chat

SIGNED = {"extra_content": {"google": {"thought_signature": "c2lnbmF0dXJl"}}}
STEPS = [
    Step(parts=[Think(text="First I look."), Say(text="I look."), Call(name="grep", arguments={"n": 1}, extra=SIGNED)]),
    Step(parts=[Think(text="Once more."), Call(name="grep", arguments={"n": 2}, extra=SIGNED)]),
    Step(parts=[Think(text="So."), Say(text="Done.")]),
]


async def turn(provider, history, model):
    answers = []
    while not answers or answers[-1].calls:
        answers.append(await ask(provider, request(*history, model=model, session="s")))
        message = answers[-1].message(f"{provider.name}/{model}")
        history += [message, *(ToolMessage(call_id=call.id, content="r") for call in message.tool_calls)]
    return answers


@pytest.mark.parametrize("model", ["deepseek-reasoner", "kimi-k3-thinking", "gemini-3-pro"])
async def test_what_a_host_gave_with_its_calls_goes_back_to_it(model):
    history = [UserMessage(content="Do it.")]
    async with provider_server([*STEPS, "ok"], strict=True) as server:
        provider = connect(server, "openai")
        answers = await turn(provider, history, model)
        history += [UserMessage(content="And?")]
        await turn(provider, history, model)
        await provider.close()
        assert server.rules.refusals == []
        bodies = [request.raw for request in server.answered]
    for shorter, longer in itertools.pairwise(bodies):
        assert longer.startswith(shorter[: shorter.index(b'],"stream":true')])
    sent = [message for message in json.loads(bodies[-1])["messages"] if message["role"] == "assistant"]
    assert [message["reasoning_content"] for message in sent] == ["First I look.", "Once more.", "So."]
    assert [message.get("content") for message in sent] == ["I look.", None, "Done."]
    assert sent[0]["tool_calls"][0]["extra_content"] == SIGNED["extra_content"]
    assert answers[0].reasoning == "First I look."


async def test_another_model_gets_neither_thoughts_nor_signatures():
    history = [UserMessage(content="Do it.")]
    async with provider_server([*STEPS, "ok"], strict=True) as server:
        provider = connect(server, "openai")
        await turn(provider, history, "gemini-3-pro")
        history += [UserMessage(content="And?")]
        (answer,) = await turn(provider, history, "tiny-1")
        await provider.close()
        assert server.rules.refusals == []
        body = server.answered[-1].raw
    assert b"reasoning_content" not in body
    assert b"thought_signature" not in body
    assert answer.report.dropped_reasoning == 3


async def test_a_host_that_refuses_its_own_field_is_not_sent_it_again():
    refusal = "'messages.2' : for 'role:assistant' [('messages.2' : property 'reasoning_content' is unsupported)]"
    history = [UserMessage(content="Do it.")]
    async with provider_server([STEPS[0], Step(status=400, error=refusal), STEPS[1], STEPS[2]]) as server:
        provider = connect(server, "openai")
        await turn(provider, history, "m")
        await provider.close()
        bodies = [request.raw for request in server.answered]
    assert [b"reasoning_content" in body for body in bodies] == [False, True, False, False]
    assert b"thought_signature" in bodies[-1]


@pytest.mark.parametrize(
    ("told", "owed"),
    [
        (
            "Missing `reasoning_content` field in the assistant message at message index 2.",
            {"reasoning_content": " "},
        ),
        (
            "Tool call id was c1 but must be a-z, A-Z, 0-9, with a length of 9.",
            {"id": shorten_id("c1")},
        ),
        (
            "Function call is missing a thought_signature in functionCall parts.",
            {"extra_content": {"google": {"thought_signature": "skip_thought_signature_validator"}}},
        ),
    ],
)
async def test_a_host_that_wants_something_with_every_call_gets_it_with_those_of_other_models(told, owed):
    call = ToolCall(id="c1", name="grep", arguments="{}")
    history = [UserMessage(content="x"), AssistantMessage(tool_calls=(call,)), ToolMessage(call_id="c1", content="r")]
    async with provider_server([Step(status=400, error=told), "ok", "ok"]) as server:
        provider = connect(server, "openai")
        for _ in range(2):
            await ask(provider, request(*history, model="m"))
        await provider.close()
        sent = [sent_request.json["messages"][2] for sent_request in server.answered]
    assert [{**message, **message["tool_calls"][0]}.items() >= owed.items() for message in sent] == [False, True, True]


def test_a_short_id_is_nine_letters_and_digits_and_always_the_same():
    assert shorten_id("call_1") == shorten_id("call_1") != shorten_id("call_2")
    assert all(
        len(short_id) == 9 and short_id.isalnum() and short_id.isascii()
        for short_id in map(shorten_id, ("", "a", "call_ü"))
    )


async def test_a_name_that_no_api_takes_goes_back_mended():
    history = [UserMessage(content="Do it.")]
    async with provider_server([Step(calls=[Call(name="no such tool!")]), "ok"], strict=True) as server:
        provider = connect(server, "openai")
        await turn(provider, history, "m")
        await provider.close()
        sent = server.answered[-1].json["messages"][2]
    assert sent["tool_calls"][0]["function"]["name"] == "no_such_tool_"


def test_what_speaks_of_the_stream_is_no_field_of_the_message():
    answer = ChatAnswer(frozenset(), api=Api(label="x", base_url="http://127.0.0.1"))
    call = {"index": 0, "id": "a", "function": {"name": "grep", "arguments": "{}"}}
    pieces = [{"index": 0, "token_ids": [1], "vendor": "v", "tool_calls": [call]}, {"index": 0, "logprobs": {}}]
    list(answer.feed({"choices": [{"delta": pieces[0]}, {"delta": pieces[1]}]}))
    (answered,) = answer.finish()
    assert answered.wire.items[0].keys() == {"role", "content", "tool_calls", "vendor"}


async def test_thinking_in_the_text_is_reasoning_and_does_not_go_back():
    history = [UserMessage(content="Do it.")]
    step = Step(text="<think>Hm, <b>.</think>\n\nI look: `<think>`.", calls=[Call(name="grep")], piece=3)
    async with provider_server([step, "done"], strict=True) as server:
        provider = connect(server, "openai")
        first, _ = await turn(provider, history, "m")
        await provider.close()
        sent = server.answered[-1].json["messages"][2]
    assert (first.reasoning, first.text) == ("Hm, <b>.", "I look: `<think>`.")
    assert sent["content"] == "I look: `<think>`."
    assert sent.keys() == {"role", "content", "tool_calls"}


@pytest.mark.parametrize(
    ("error", "code"),
    [(None, "server_failed"), ({"code": 429, "message": "slow"}, "rate_limited"), ({"code": 502}, "server_failed")],
)
async def test_an_answer_that_ends_in_an_error_is_one(error, code):
    last = {"index": 0, "delta": {}, "finish_reason": "error", **({"error": error} if error else {})}
    chunks = [{"choices": [{"index": 0, "delta": {"content": "So"}}]}, {"choices": [last]}]
    async with provider_server([Step(chunks=chunks)]) as server:
        provider = connect(server, "openai")
        with pytest.raises(ProviderError) as caught:
            await ask(provider)
        await provider.close()
    assert (caught.value.code, caught.value.retryable) == (code, True)


async def test_pictures_of_results_follow_in_a_users_message():
    picture = Attachment(digest="a", media_type="image/png", name="a.png")
    calls = tuple(ToolCall(id=f"c{number}", name="grep", arguments="{}") for number in range(2))
    history = [
        UserMessage(content="Look.", attachments=(picture,)),
        AssistantMessage(tool_calls=calls),
        ToolMessage(call_id="c0", content="one", attachments=(picture,)),
        UserMessage(content="by the way"),
        ToolMessage(call_id="c1", content="two"),
    ]
    async with provider_server(["ok"], strict=True) as server:
        provider = connect(server, "openai")
        await ask(provider, request(*history, blobs=lambda _: b"\x89P"))
        await provider.close()
        assert server.rules.refusals == []
        sent = server.answered[0].json["messages"]
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVA="}}
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "tool", "tool", "user", "user"]
    assert sent[1]["content"] == [{"type": "text", "text": "Look."}, image]
    assert sent[5]["content"][1:] == [image]
    assert sent[6]["content"] == "by the way"


async def test_the_version_in_the_query_of_the_address_survives():
    async with provider_server(["ok"]) as server:
        provider = connect(server, "openai", query={"api-version": "2025-04-01-preview"})
        await ask(provider)
        await provider.close()
        assert server.answered[0].path == "/v1/chat/completions?api-version=2025-04-01-preview"


@pytest.mark.parametrize("number", range(len(STEPS)))
async def test_the_sdks_accumulator_reads_the_same(number):
    async with provider_server([STEPS[number]]) as server:
        provider = connect(server, "openai")
        ours = await ask(provider)
        await provider.close()
    async with provider_server([STEPS[number]]) as server:
        theirs = await by_chat(server)
    assert (ours.text, ours.reasoning, ours.finish) == (theirs.text, theirs.reasoning, theirs.stop)
    assert [(call["name"], call["arguments"]) for call in ours.calls] == theirs.calls
    assert [call["id"] for call in ours.calls] == theirs.ids
    assert (ours.usage.prompt_tokens, ours.usage.cached_tokens, ours.usage.completion_tokens) == theirs.tokens


DELTAS = st.fixed_dictionaries(
    {},
    optional={
        "content": st.sampled_from(["x", "<think>", "</think>", "\ud83d", None, 7, ["a"], [{"text": "y"}]]),
        "reasoning_content": st.sampled_from(["r", None, 7]),
        "reasoning_details": st.sampled_from([[], [{"index": 0, "text": "a"}], 7, [7], {"a": 1}, "x"]),
        "tool_calls": st.sampled_from(
            [None, 7, [7], [{"index": 0}], [{"function": {"name": "grep", "arguments": {}}}]]
        ),
        "odd": st.sampled_from([1.5, True, "z", [], {}, float("inf")]),
    },
)
CHUNKS = st.lists(
    st.fixed_dictionaries(
        {
            "choices": st.lists(
                st.fixed_dictionaries(
                    {"delta": st.none() | DELTAS},
                    optional={
                        "index": st.sampled_from([0, 1, [], None]),
                        "finish_reason": st.sampled_from(["stop", 7]),
                    },
                ),
                max_size=2,
            )
        },
        optional={"usage": st.sampled_from([7, {}, {"prompt_tokens": "x"}, {"prompt_tokens": -1}])},
    ),
    max_size=6,
)


@given(CHUNKS)
def test_no_chunk_however_odd_breaks_the_reading(chunks):
    answer = ChatAnswer(frozenset(), api=Api(label="x", base_url="http://127.0.0.1"))
    deltas = [delta for chunk in [7, None, *chunks] for delta in answer.feed(chunk)]
    deltas += answer.finish()
    calls = [delta for delta in deltas if isinstance(delta, ToolCallDelta) and delta.id]
    assert len({call.id for call in calls}) == len(calls)
