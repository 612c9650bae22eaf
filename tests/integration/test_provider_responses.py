"""The responses wire through the SDK, against a server that keeps the rules of the real one."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ContextOverflow, ProviderError
from core.protocol.messages import AssistantMessage, Attachment, ToolCall, ToolMessage, UserMessage, WireAnswer
from core.providers.base import ToolCallDelta, ToolSpec
from core.providers.connection.failures import Api
from core.providers.openai.responses import ResponsesAnswer
from tests.support.model_server.step import Say, Think
from tests.support.provider_calls import GREP, ask, connect, request
from tests.support.provider_server import provider_server
from tests.support.provider_streams import Call, Step
from tests.support.sdk_clients import by_responses

MODEL = "gpt-6-sol"
PATCH = ToolSpec(
    name="apply_patch", description="Patch.", parameters={"type": "object", "properties": {}}, freeform="input"
)
TOOLS = (GREP, PATCH)
STEPS = [
    Step(
        parts=[
            Think(text="**Look**\n\nI look first."),
            Say(text="I look.", phase="commentary"),
            Call(name="grep", arguments={"pattern": "x"}),
            Call(name="apply_patch", arguments={"input": '*** "Begin"\n+ü'}, freeform="input"),
        ]
    ),
    Step(parts=[Think(text="More."), Call(name="grep", arguments={"pattern": "y"})]),
    Step(parts=[Think(redacted=True, text="hidden"), Say(text="Done.", phase="final_answer")]),
]


def asked(messages, **fields):
    return request(*messages, **{"model": MODEL, "tools": TOOLS, "effort": "high", "session": "s1", **fields})


async def turn(provider, server, history, **fields):
    """Ask until no tool is called; the history grows by answers and results."""
    answers = []
    while True:
        answer = await ask(provider, asked(history, **fields))
        answers.append(answer)
        message = answer.message(f"{provider.name}/{fields.get('model', MODEL)}")
        history += [message, *(ToolMessage(call_id=call.id, content=f"r {call.name}") for call in message.tool_calls)]
        if not answer.calls:
            return answers


def prefix(body: bytes) -> bytes:
    """Head and array of a body."""
    return body[: body.index(b'],"stream":true')]


async def test_a_turn_with_reasoning_goes_back_item_for_item_and_is_a_prefix_of_the_next_request():
    history = [UserMessage(content="Do it.")]
    async with provider_server(STEPS, strict=True) as server:
        provider = connect(server, "responses")
        answers = await turn(provider, server, history)
        await provider.close()
        assert (server.rules.refusals, server.rules.remarks) == ([], [])
        bodies = [request.raw for request in server.answered]
    assert [answer.finish for answer in answers] == ["tool_calls", "tool_calls", "stop"]
    assert [answer.reasoning for answer in answers] == ["**Look**\n\nI look first.", "More.", ""]
    assert answers[0].calls[1]["arguments"] == json.dumps({"input": '*** "Begin"\n+ü'}, ensure_ascii=False)
    for shorter, longer in itertools.pairwise(bodies):
        assert longer.startswith(prefix(shorter))
    sent = json.loads(bodies[2])
    types = [entry["type"] for entry in sent["input"]]
    assert types == [
        "message", "reasoning", "message", "function_call", "custom_tool_call", "function_call_output",
        "custom_tool_call_output", "reasoning", "function_call", "function_call_output",
    ]  # fmt: skip
    assert sent["input"][1:5] == list(answers[0].wire.items)
    assert sent["input"][2]["phase"] == "commentary"
    options = {key: sent[key] for key in sent.keys() - {"model", "instructions", "tools", "input"}}
    assert options == {
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "high", "summary": "auto"},
        "prompt_cache_key": "s1",
    }
    assert [tool["type"] for tool in sent["tools"]] == ["function", "custom"]


async def test_what_went_before_a_thought_is_changed_and_the_thought_stays_at_home():
    history = [UserMessage(content="Do it.")]
    async with provider_server([*STEPS, "on", "on"], strict=True) as server:
        provider = connect(server, "responses")
        await turn(provider, server, history)
        question = UserMessage(content="And now?")
        intact_answer = await ask(provider, asked([*history, question]))
        changed = await ask(provider, asked([UserMessage(content="Do that."), *history[1:], question]))
        await provider.close()
        assert server.rules.refusals == []
        types = {entry["type"] for entry in server.answered[-1].json["input"]}
        ids = [entry.get("id") for entry in server.answered[-1].json["input"]]
    assert (intact_answer.report.dropped_reasoning, changed.report.dropped_reasoning) == (0, 3)
    assert "reasoning" not in types
    assert set(ids) == {None}


async def test_a_private_request_names_no_session():
    async with provider_server(["hi"], strict=True) as server:
        provider = connect(server, "responses")
        await ask(provider, asked([UserMessage(content="x")], private=True))
        await provider.close()
        body = server.answered[0].json
    assert body["store"] is False
    assert not body.keys() & {"prompt_cache_key", "user", "metadata", "safety_identifier"}


async def test_pictures_and_pdfs_go_with_messages_and_with_results():
    picture = Attachment(digest="a", media_type="image/png", name="a.png", size=3)
    paper = Attachment(digest="b", media_type="application/pdf", name="b.pdf", size=3)
    call = ToolCall(id="c1", name="grep", arguments="{}")
    history = [
        UserMessage(content="Look.", attachments=(picture, paper)),
        AssistantMessage(tool_calls=(call,)),
        ToolMessage(call_id="c1", content="", attachments=(picture,)),
    ]
    async with provider_server(["nice"], strict=True) as server:
        provider = connect(server, "responses")
        await ask(provider, asked(history, blobs=lambda digest: b"\x89P" if digest == "a" else b"%P"))
        await provider.close()
        assert server.rules.refusals == []
        items = server.answered[0].json["input"]
    image = {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,iVA="}
    pdf = {"type": "input_file", "filename": "b.pdf", "file_data": "data:application/pdf;base64,JVA="}
    assert items[0]["content"] == [{"type": "input_text", "text": "Look."}, image, pdf]
    assert items[2]["output"] == [{"type": "input_text", "text": "(no output)"}, image]


@pytest.mark.parametrize("number", range(len(STEPS)))
async def test_the_sdks_accumulator_reads_the_same(number):
    usage = {"prompt": 50, "completion": 7, "cached": 40, "reasoning": 3}
    step = replaced(STEPS[number], usage=usage)
    async with provider_server([step]) as server:
        provider = connect(server, "responses")
        ours = await ask(provider, asked([UserMessage(content="x")]))
        await provider.close()
    async with provider_server([step]) as server:
        theirs = await by_responses(server)
    assert (ours.text, ours.reasoning) == (theirs.text, theirs.reasoning)
    assert [call["id"] for call in ours.calls] == theirs.ids
    arguments = [json.loads(call["arguments"]).get("input", call["arguments"]) for call in ours.calls]
    assert list(zip([call["name"] for call in ours.calls], arguments, strict=True)) == theirs.calls
    dumped = [item.model_dump(exclude_unset=True) for item in theirs.whole.output]
    assert list(ours.wire.items) == [_unparsed(item) for item in dumped]
    assert (ours.usage.prompt_tokens, ours.usage.cached_tokens, ours.usage.completion_tokens) == theirs.tokens
    assert (ours.usage.reasoning_tokens, ours.finish) == (3, "tool_calls" if ours.calls else "stop")


@pytest.mark.parametrize(("theirs", "ours"), [("length", "length"), ("content_filter", "refused")])
async def test_an_incomplete_response_says_why(theirs, ours):
    async with provider_server([Step(text="So f", finish=theirs)]) as server:
        provider = connect(server, "responses")
        answer = await ask(provider, asked([UserMessage(content="x")]))
        await provider.close()
    assert (answer.text, answer.finish) == ("So f", ours)


def replaced(step, **fields):
    return Step(**{**{name: getattr(step, name) for name in step.__dataclass_fields__}, **fields})


def _unparsed(value):
    """Without what the accumulator adds."""
    if isinstance(value, dict):
        added = ("parsed", "parsed_arguments")
        return {key: _unparsed(child) for key, child in value.items() if key not in added}
    return [_unparsed(child) for child in value] if isinstance(value, list) else value


def reading():
    return ResponsesAnswer(frozenset(), {}, binding="", api=Api(label="x", base_url="http://127.0.0.1"))


@pytest.mark.parametrize("named", ["place", "id", "an id that changes"])
def test_an_item_is_found_again_by_its_place_or_by_its_id(named):
    numbers = itertools.count()

    def event(kind, place, **rest):
        item_id = f"id{next(numbers)}" if named == "an id that changes" else f"id{place}"
        payload = {"type": f"response.{kind}", **rest}
        if "item" in rest:
            payload["item"] = {**rest["item"], **({"id": item_id} if named != "place" else {})}
        elif named != "place":
            payload["item_id"] = item_id
        return payload | ({"output_index": place} if named != "id" else {})

    events = []
    for place, text in enumerate(("One.", "Two.")):
        part = {"type": "output_text", "text": text}
        events += [
            event("output_item.added", place, item={"type": "message", "content": []}),
            event("output_text.delta", place, delta=text[:2], content_index=0),
            event("output_text.delta", place, delta=text[2:], content_index=0),
            event("output_item.done", place, item={"type": "message", "content": [part]}),
        ]
    done = {"output": [{"type": "message", "id": f"last{index}", "content": []} for index in range(2)]}
    answer = reading()
    deltas = [
        delta for one in (*events, {"type": "response.completed", "response": done}) for delta in answer.feed(one)
    ]
    assert "".join(delta.text for delta in deltas) == "One.\n\nTwo."
    (answered,) = answer.finish()
    assert [item["content"][0]["text"] for item in answered.wire.items] == ["One.", "Two."]


async def refused(step, **fields):
    async with provider_server([step]) as server:
        provider = connect(server, "responses")
        try:
            with pytest.raises(ProviderError) as caught:
                await ask(provider, asked([UserMessage(content="x")], **fields))
        finally:
            await provider.close()
    return caught.value


@pytest.mark.parametrize(
    ("code", "ours", "retryable"),
    [
        ("server_error", "server_failed", True),
        ("rate_limit_exceeded", "rate_limited", True),
        ("invalid_prompt", "request_invalid", False),
        ("image_parse_error", "request_invalid", False),
        ("bio_policy", "request_invalid", False),
    ],
)
async def test_a_failed_response_says_what_failed(code, ours, retryable):
    failed = await refused(Step(text="par", finish="failed", error="it broke", error_type=code))
    assert (failed.code, failed.retryable) == (ours, retryable)
    assert "it broke" in failed.message


async def test_an_error_event_in_the_middle_is_an_error():
    error = {"type": "error", "code": "context_length_exceeded", "message": "Your input exceeds the context window"}
    text_delta = {
        "type": "response.output_text.delta",
        "item_id": "m",
        "output_index": 0,
        "content_index": 0,
        "delta": "x",
    }
    assert isinstance(await refused(Step(chunks=[text_delta, error])), ContextOverflow)
    assert (await refused(Step(text="a b c " * 20, cut="text"))).code == "stream_cut"


async def test_a_refusal_is_text_that_ends_as_one():
    async with provider_server([Step(refusal="I can't.")]) as server:
        provider = connect(server, "responses")
        answer = await ask(provider, asked([UserMessage(content="x")]))
        await provider.close()
    assert (answer.text, answer.finish) == ("I can't.", "refused")


@pytest.mark.parametrize("fields", [{"newline": "\r\n"}, {"comments": True}, {"write_size": 3}, {"piece": 1}])
async def test_the_form_of_the_stream_does_not_matter(fields):
    step = replaced(STEPS[0], **fields)
    async with provider_server([STEPS[0], step]) as server:
        provider = connect(server, "responses")
        plain, odd = [await ask(provider, asked([UserMessage(content="x")])) for _ in range(2)]
        await provider.close()
    assert (plain.text, plain.reasoning, plain.finish) == (odd.text, odd.reasoning, odd.finish)
    assert [call["arguments"] for call in plain.calls] == [call["arguments"] for call in odd.calls]


async def test_a_hundred_calls_without_ids_get_one_each_and_their_results_fit():
    calls = [Call(name="grep", arguments={"n": number}, id=None if number % 2 else "same") for number in range(100)]
    history = [UserMessage(content="Do it.")]
    async with provider_server([Step(calls=calls), "done"], strict=True) as server:
        provider = connect(server, "responses")
        first, _ = await turn(provider, server, history)
        await provider.close()
        assert server.rules.refusals == []
    assert len({call["id"] for call in first.calls}) == 100


async def test_an_answer_that_was_cut_in_its_thoughts_is_not_sent_back_with_them():
    history = [UserMessage(content="Do it.")]
    cut = Step(parts=[Say(text="So."), Think(text="Hm")], finish="length")
    async with provider_server([cut, "on"], strict=True) as server:
        provider = connect(server, "responses")
        answer = await ask(provider, asked(history))
        history += [answer.message(f"responses/{MODEL}"), UserMessage(content="Go on.")]
        await ask(provider, asked(history))
        await provider.close()
        assert server.rules.refusals == []
        types = [entry["type"] for entry in server.answered[-1].json["input"]]
    assert answer.finish == "length"
    assert types == ["message"] * 3


async def test_a_result_whose_call_is_not_there_is_told_in_words():
    history = [UserMessage(content="x"), ToolMessage(call_id="gone", content="found it"), UserMessage(content="y")]
    async with provider_server(["ok"], strict=True) as server:
        provider = connect(server, "responses")
        await ask(provider, asked(history))
        await provider.close()
        assert server.rules.refusals == []


async def test_reasoning_of_another_model_or_wire_is_left_out_and_its_calls_are_not():
    theirs = WireAnswer(wire="messages", items=({"type": "thinking", "thinking": "t", "signature": "s"},), binding="b")
    call = ToolCall(id="call_ours", name="apply_patch", arguments='{"input": "p"}', wire_id="toolu_1")
    answer = AssistantMessage(content="So.", tool_calls=(call,), model="anthropic/claude-opus-5-5", wire=theirs)
    history = [UserMessage(content="x"), answer, ToolMessage(call_id="call_ours", content="done")]
    async with provider_server(["ok"], strict=True) as server:
        provider = connect(server, "responses")
        reply = await ask(provider, asked(history))
        await provider.close()
        assert server.rules.refusals == []
        items = server.answered[0].json["input"]
    assert reply.report.dropped_reasoning == 1
    assert items[2:] == [
        {"type": "custom_tool_call", "call_id": "call_ours", "name": "apply_patch", "input": "p"},
        {"type": "custom_tool_call_output", "call_id": "call_ours", "output": "done"},
    ]


ITEMS = (
    None,
    7,
    {},
    {"type": "message"},
    {"type": "message", "id": "a", "content": [7, {"type": "output_text", "text": "ab"}]},
    {"type": "function_call", "id": "b", "name": "grep", "arguments": '{"a'},
    {"type": "reasoning", "summary": 7},
    {"type": "custom_tool_call", "call_id": "b", "name": None, "input": 'x"y'},
)
KINDS = (
    "response.output_item.added",
    "response.output_item.done",
    "response.output_text.delta",
    "response.function_call_arguments.delta",
    "response.completed",
    "response.odd",
    "",
)
RESPONSES = (None, {}, {"output": [7, {"type": "message"}], "usage": {"input_tokens": "x"}})
EVENTS = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(KINDS)},
        optional={
            "output_index": st.sampled_from([0, 1, "x", None]),
            "item_id": st.sampled_from(["a", "b", 7]),
            "delta": st.sampled_from(["x", "\ud83d", None, 7]),
            "item": st.sampled_from(ITEMS),
            "response": st.sampled_from(RESPONSES),
        },
    ),
    max_size=8,
)


@given(EVENTS)
def test_no_event_however_odd_breaks_the_reading(events):
    answer = reading()
    deltas = [delta for event in [7, None, *events] for delta in answer.feed(event)]
    deltas += answer.finish()
    calls = [delta for delta in deltas if isinstance(delta, ToolCallDelta) and delta.id]
    assert len({call.id for call in calls}) == len(calls)
