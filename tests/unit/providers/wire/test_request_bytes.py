from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.protocol.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage, WireAnswer
from core.providers.base import ModelRequest
from core.providers.wire.request_bytes import MAX_HISTORIES, EncodedMessages, RequestEncoder, SentCall, find_unit_end


class PlainWire:
    """Writes one element for a unit, and what it saw of the messages before it."""

    array = "messages"
    find_unit_end = staticmethod(find_unit_end)

    def __init__(self, request, key="", fails_at=""):
        self.request, self.key, self.fails_at = request, key, fails_at
        self.encoded = []

    def head(self):
        return {"model": self.request.model, "system": self.request.system}

    def build_bound_head(self):
        return self.head()

    def encode(self, messages, before):
        self.encoded += messages
        first = messages[0]
        if isinstance(first, UserMessage) and first.content == self.fails_at != "":
            raise ValueError(first.content)
        if isinstance(first, AssistantMessage):
            calls = {call.id: SentCall(id=call.wire_id or call.id) for call in first.tool_calls}
            bound = first.wire is not None and first.wire.binding == before.binding
            item = {"said": first.content, "first": before.is_empty, "bound": bound}
            return EncodedMessages(
                items=[item], calls=calls, dropped_reasoning=int(first.wire is not None and not bound)
            )
        if isinstance(first, UserMessage):
            return EncodedMessages(items=[{"asked": first.content}] if first.content else [])
        results = [message for message in messages if isinstance(message, ToolMessage)]
        sent = [before.find_call(result.call_id) for result in results]
        between = [message.content for message in messages if isinstance(message, UserMessage)]
        return EncodedMessages(
            items=[{"results": [sent_call and sent_call.id for sent_call in sent], "between": between}]
        )


def asked(*messages, **fields):
    return ModelRequest(**{"model": "m", "system": "S", "tools": (), "messages": messages, **fields})


def written(encoder, request, **fields):
    wire = PlainWire(request, **fields)
    return encoder.encode(wire, request), wire


def from_scratch(request, **fields):
    return written(RequestEncoder(), request, **fields)[0]


def user(content="hi"):
    return UserMessage(content=content)


def calling(*ids, wire=None):
    calls = tuple(ToolCall(id=call_id, name="a", arguments="{}", wire_id=f"w_{call_id}") for call_id in ids)
    return AssistantMessage(content="x", tool_calls=calls, wire=wire)


def result(call_id):
    return ToolMessage(call_id=call_id, content="r")


TURN = [
    user("a"),
    calling("1", "2"),
    result("1"),
    result("2"),
    calling("3"),
    result("3"),
    AssistantMessage(content="e"),
]

MESSAGES = st.one_of(
    st.sampled_from(["", "a", "ä\ud83d", "b"]).map(user),
    st.lists(st.sampled_from("1234"), max_size=2).map(lambda ids: calling(*ids)),
    st.just(AssistantMessage(content="thought", wire=WireAnswer(wire="chat", items=({"x": 1},), binding="?"))),
    st.sampled_from("1234").map(result),
)
HISTORIES = st.lists(MESSAGES, max_size=9)


@st.composite
def edited(draw):
    """A history, then what became of it by any edit, several times."""
    steps = [draw(HISTORIES)]
    for _ in range(draw(st.integers(1, 5))):
        now = list(steps[-1])
        place, until = draw(st.integers(0, len(now))), draw(st.integers(0, len(now)))
        edit = draw(st.sampled_from(["append", "cut", "replace", "insert", "other", "same again"]))
        match edit:
            case "append":
                now += draw(HISTORIES)
            case "cut":
                now = now[:place]
            case "replace":
                now[place:until] = draw(HISTORIES)
            case "insert":
                now[place:place] = draw(HISTORIES)
            case "other":
                now = draw(HISTORIES)
            case _:
                now = [
                    type(message)(**{name: getattr(message, name) for name in message.__struct_fields__})
                    for message in now
                ]
        steps.append(now)
    return steps


@given(edited(), st.data())
def test_any_edit_of_a_history_gives_what_a_new_encoder_gives(steps, data):
    encoder = RequestEncoder()
    for messages in steps:
        fields = {"session": "s", "model": data.draw(st.sampled_from("mn")), "system": data.draw(st.sampled_from("ST"))}
        request, key = asked(*messages, **fields), data.draw(st.sampled_from(["", "k"]))
        encoded_request, scratch = written(encoder, request, key=key)[0], from_scratch(request, key=key)
        assert encoded_request == scratch
        assert list(json.loads(encoded_request.build_body({"stream": True}))) == [
            "model",
            "system",
            "messages",
            "stream",
        ]


@given(st.lists(MESSAGES, max_size=12), st.lists(MESSAGES, max_size=4))
def test_a_longer_history_begins_with_the_bytes_of_the_shorter_one(messages, more):
    if any(isinstance(message, ToolMessage) for message in more):  # its step is over
        more = [AssistantMessage(content="x"), *more]
    encoder = RequestEncoder()
    short = written(encoder, asked(*messages))[0]
    long = written(encoder, asked(*messages, *more))[0]
    assert long.prefix.startswith(short.prefix)
    assert short.build_body({}) == short.prefix + b"]}"


def test_only_what_is_new_is_encoded():
    encoder = RequestEncoder()
    written(encoder, asked(*TURN))
    again = written(encoder, asked(*TURN, user("b"), calling("4")))[1]
    assert again.encoded == [user("b"), calling("4")]
    fewer = written(encoder, asked(*TURN[:4]))[1]
    assert fewer.encoded == []


def test_the_results_of_a_step_and_what_came_between_them_are_one_unit():
    messages = [calling("1", "2"), result("1"), user("note"), result("2"), user("later"), calling(), result("1")]
    ends = [find_unit_end(messages, place) for place in (0, 1, 4, 5, 6)]
    assert ends == [1, 4, 5, 6, 7]
    body_messages = json.loads(from_scratch(asked(*messages)).build_body({}))["messages"]
    assert body_messages[1] == {"results": ["w_1", "w_2"], "between": ["note"]}


def test_an_answer_is_bound_to_all_that_was_sent_before_it_and_to_nothing_else():
    encoder = RequestEncoder()
    binding = written(encoder, asked(*TURN))[0].binding
    answer = calling("4", wire=WireAnswer(wire="chat", items=(), binding=binding))

    def dropped(*messages, **fields):
        return written(encoder, asked(*messages, **fields))[0].dropped_reasoning

    assert dropped(*TURN, answer, result("4")) == 0
    assert dropped(*TURN, user("inserted"), answer) == 1
    assert dropped(*TURN[1:], answer) == 1
    assert dropped(*TURN, answer, system="other") == 1
    assert dropped(*TURN, answer, user("after")) == 0


def test_the_ids_of_all_calls_are_known_ours_and_the_providers():
    encoded_request = from_scratch(asked(*TURN))
    assert encoded_request.call_ids == {"1", "2", "3", "w_1", "w_2", "w_3"}


def test_a_history_that_could_not_be_encoded_harms_no_later_request():
    encoder, bad = RequestEncoder(), user("bad")
    written(encoder, asked(*TURN))
    with pytest.raises(ValueError, match="bad"):
        written(encoder, asked(*TURN[:3], user("new"), bad), fails_at="bad")
    for messages in (TURN, [*TURN[:3], user("new")], [*TURN[:3], user("new"), bad]):
        assert written(encoder, asked(*messages))[0] == from_scratch(asked(*messages))


def test_parsed_values_that_are_merely_equal_are_told_apart():
    encoder = RequestEncoder()

    class ItemsWire(PlainWire):
        def encode(self, messages, before):
            return EncodedMessages(items=messages[0].wire.items)

    for value in (1, True, 1.0):
        request = asked(AssistantMessage(wire=WireAnswer(wire="chat", items=({"n": value},))))
        assert json.dumps({"n": value}).replace(" ", "").encode() in encoder.encode(ItemsWire(request), request).prefix


def test_the_histories_of_the_latest_sessions_are_kept():
    encoder = RequestEncoder()
    for number in range(MAX_HISTORIES + 1):
        written(encoder, asked(*TURN, session=f"s{number}"))
    assert written(encoder, asked(*TURN, session=f"s{MAX_HISTORIES}"))[1].encoded == []
    assert written(encoder, asked(*TURN, session="s0"))[1].encoded == TURN


def test_a_job_beside_the_conversation_costs_the_conversation_nothing():
    encoder = RequestEncoder()
    written(encoder, asked(*TURN, session="s"))
    written(encoder, asked(user("a name for it?"), session="s", system="You name things."))
    assert written(encoder, asked(*TURN, user("b"), session="s"))[1].encoded == [user("b")]
