"""The SDKs' own accumulators and our parsers read the same streams, and have to agree on what was said."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.providers.base import ToolSpec
from tests.support.provider_calls import GREP, Answer, ask, connect, request
from tests.support.provider_server import provider_server
from tests.support.provider_streams import Call, Dialect, Say, Step, Think
from tests.support.sdk_clients import Accumulated, by_chat, by_messages, by_responses

READERS = {"openai": by_chat, "responses": by_responses, "anthropic": by_messages}
on_every_wire = pytest.mark.parametrize("dialect", READERS)
PATCH = ToolSpec(
    name="apply_patch",
    description="Edits files.",
    parameters={"type": "object", "properties": {"patch": {"type": "string"}}},
    freeform="patch",
)
STOPS = {
    "openai": {"stop": "stop", "tool_calls": "tool_calls", "length": "length", "content_filter": "refused"},
    "responses": {"completed": "stop"},
    "anthropic": {
        "end_turn": "stop",
        "stop_sequence": "stop",
        "tool_use": "tool_calls",
        "max_tokens": "length",
        "refusal": "refused",
        "pause_turn": "paused",
        "model_context_window_exceeded": "context_full",
    },
}


async def read_by_both(dialect: Dialect, step: Step) -> tuple[Accumulated, Answer]:
    async with provider_server([step, step]) as server:
        theirs = await READERS[dialect](server)
        provider = connect(server, dialect)
        try:
            ours = await ask(provider, request(model="gpt-6-sol", tools=(GREP, PATCH)))
        finally:
            await provider.close()
    return theirs, ours


def arguments_of(call: Any) -> Any:
    """Of a call as an SDK read it: an object, its JSON, or the free text of a patch."""
    name, arguments = call
    if name == "apply_patch" and isinstance(arguments, str) and not arguments.startswith("{"):
        return {"patch": arguments}
    return json.loads(arguments or "{}") if isinstance(arguments, str) else arguments


def assert_agreed(dialect: Dialect, theirs: Accumulated, ours: Answer) -> None:
    exact = dialect != "responses"  # there, several messages and summaries are set apart by blank lines
    for mine, read in ((ours.text, theirs.text), (ours.reasoning, theirs.reasoning)):
        assert mine == read if exact else "".join(mine.split()) == "".join(read.split())
    assert [call["name"] for call in ours.calls] == [name for name, _ in theirs.calls]
    assert [json.loads(call["arguments"] or "{}") for call in ours.calls] == [*map(arguments_of, theirs.calls)]
    assert [call["id"] for call in ours.calls] == theirs.ids
    assert ours.usage is not None
    assert (ours.usage.prompt_tokens, ours.usage.cached_tokens, ours.usage.completion_tokens) == theirs.tokens
    expected = STOPS[dialect][str(theirs.stop)]
    assert ours.finish == ("tool_calls" if dialect == "responses" and theirs.calls else expected)


WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
PARTS = (
    st.builds(Say, text=WORDS, phase=st.sampled_from(["", "commentary", "final_answer"]))
    | st.builds(Think, text=WORDS, redacted=st.booleans())
    | st.builds(Call, name=st.sampled_from(["grep", "read_file"]), arguments=st.dictionaries(WORDS, VALUES, max_size=3))
    | st.builds(
        Call,
        name=st.just("apply_patch"),
        arguments=WORDS.map(lambda text: {"patch": f"*** {text}"}),
        freeform=st.just("patch"),
    )
)
ANSWERS = st.builds(
    Step,
    parts=st.lists(PARTS, min_size=1, max_size=6),
    usage=st.just({"prompt": 1000, "cached": 600, "completion": 50, "reasoning": 7}),
    piece=st.integers(1, 30),
    write_size=st.sampled_from([0, 0, 1, 2, 7]),
    newline=st.sampled_from(["\n", "\r\n"]),
    comments=st.booleans(),
)


@on_every_wire
@given(step=ANSWERS)
@settings(max_examples=25)
def test_whatever_is_said_both_read_the_same(dialect, step):
    theirs, ours = asyncio.run(read_by_both(dialect, step))
    assert_agreed(dialect, theirs, ours)


SCRIPTED = {
    "nothing but a call": Step(calls=[Call(name="grep")]),
    "a hundred calls": Step(calls=[Call(name="grep", arguments={"pattern": str(number)}) for number in range(100)]),
    "thoughts between calls": Step(parts=[Think(text="A"), Call(name="grep"), Think(text="B"), Call(name="grep")]),
    "a long patch": Step(
        calls=[Call(name="apply_patch", arguments={"patch": "*** é\n" * 5000}, freeform="patch")], piece=900
    ),
    "an emoji in halves": Step(text="👩‍👩‍👧‍👦 🎉" * 9, piece=1, write_size=1),
    "text around a call": Step(parts=[Say(text="Before."), Call(name="grep"), Say(text="After.")]),
}


@on_every_wire
@pytest.mark.parametrize("name", SCRIPTED)
async def test_of_scripted_answers_both_read_the_same(dialect, name):
    theirs, ours = await read_by_both(dialect, SCRIPTED[name])
    assert_agreed(dialect, theirs, ours)


@pytest.mark.parametrize("reason", STOPS["anthropic"])
async def test_every_stop_reason_of_a_message_has_a_word_of_ours(reason):
    theirs, ours = await read_by_both("anthropic", Step(text="So far.", finish=reason))
    assert_agreed("anthropic", theirs, ours)
    assert theirs.stop == reason
