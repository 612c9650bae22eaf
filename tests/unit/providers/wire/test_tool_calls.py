from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.protocol.messages import AssistantMessage, ToolCall, UserMessage
from core.providers.wire.tool_calls import CallNormaliser, collect_call_ids
from core.text.json_repairs import is_object, repair_arguments


def part(name: str | None = None, arguments: Any = None, **rest: Any) -> dict[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {"type": "function", "function": function, **rest}


def played(*parts: dict[str, Any], taken: set[str] | None = None) -> list[tuple[str, str, str]]:
    calls = CallNormaliser(set() if taken is None else taken)
    calls_by_index: dict[int, list[str]] = {}
    for delta in [*(delta for part in parts for delta in calls.feed(part)), *calls.finish()]:
        call = calls_by_index.setdefault(delta.index, ["", "", ""])
        assert not (delta.id and call[0]), "an id came twice"
        assert not (delta.name and call[1]), "a name came twice"
        for place, text in enumerate((delta.id, delta.name, delta.arguments)):
            call[place] += text
    assert list(calls_by_index) == list(range(len(calls_by_index)))
    return [(call[0], call[1], call[2]) for call in calls_by_index.values()]


def names_and_arguments(*parts: dict[str, Any]) -> list[tuple[str, str]]:
    calls = played(*parts)
    assert len({call[0] for call in calls}) == len(calls)
    assert all(call[0] for call in calls)
    return [call[1:] for call in calls]


def test_a_regular_stream_comes_through_unchanged():
    calls = played(
        part("a", "", index=0, id="call_a"),
        part(arguments='{"x":', index=0),
        part(arguments="1}", index=0),
        part("b", "{}", index=1, id="call_b"),
    )
    assert calls == [("call_a", "a", '{"x":1}'), ("call_b", "b", "{}")]


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([part("a", '{"x"', id="1"), part(arguments=":1}"), part("b", "{}", id="2")], id="no index"),
        pytest.param(
            [part("a", '{"x"', id="1", index=0), part(arguments=":1}", index=0), part("b", "{}", id="2", index=0)],
            id="index 0 for all",
        ),
        pytest.param([part("a", '{"x":1}', index=0), part("b", "{}", index=0)], id="index 0 for all, no ids"),
        pytest.param([part("a", '{"x":1}'), part("b", "{}")], id="neither index nor id"),
        pytest.param(
            [part("a", '{"x"', id="1", index=0), part("a", ":1}", id="1", index=0), part("b", "{}", id="2", index=1)],
            id="name and id in every chunk",
        ),
        pytest.param(
            [part("a", '{"x"', index=0), part("a", ":1}", index=0), part("b", "{}", index=1)],
            id="name in every chunk, no ids",
        ),
        pytest.param([part("a", {"x": 1}, id="1", index=0), part("b", {}, id="2", index=1)], id="arguments as object"),
        pytest.param(
            [part("a", '{"x":1}', id="same", index=0), part("b", "{}", id="same", index=1)], id="V4 one id twice"
        ),
        pytest.param(
            [part("a", '{"x"', id="1", index=None), part("b", "{}", id="2"), part(arguments=":1}", id="1")],
            id="pieces told apart by id alone",
        ),
    ],
)
def test_v4_every_way_of_leaving_something_out_is_understood(parts):
    calls = names_and_arguments(*parts)
    assert [(name, arguments.replace(" ", "")) for name, arguments in calls] == [("a", '{"x":1}'), ("b", "{}")]


def test_the_id_may_come_after_the_name():
    assert names_and_arguments(part("a", "", index=0), part(arguments="{}", index=0, id="late")) == [("a", "{}")]


def test_two_calls_of_the_same_tool_with_ids_stay_two():
    calls = names_and_arguments(part("a", "{}", id="1", index=0), part("a", "{}", id="2", index=0))
    assert calls == [("a", "{}"), ("a", "{}")]


def test_v4_an_id_that_the_history_has_is_replaced():
    call = ToolCall(id="call_0", name="a", arguments="{}")
    taken = collect_call_ids((UserMessage(content="x"), AssistantMessage(tool_calls=(call,))))
    (played_call,) = played(part("a", "{}", index=0, id="call_0"), taken=taken)
    assert played_call[0] != "call_0"
    assert taken == {"call_0"}


@pytest.mark.parametrize("unusable", ["", "with space", "x" * 65, "ä", 7, None])
def test_an_id_that_no_api_takes_is_replaced(unusable):
    (played_call,) = played(part("a", "{}", index=0, id=unusable))
    assert played_call[0].startswith("call_")


def test_v3_malformed_arguments_pass_through_as_they_are():
    assert names_and_arguments(part("a", '{"x": tru', index=0, id="1")) == [("a", '{"x": tru')]


def test_fields_that_nobody_knows_are_kept_with_their_call():
    calls = CallNormaliser(set())
    signed = {"google": {"thought_signature": "c2ln"}}
    calls.feed(part("a", '{"x":', index=0, id="functions.a:0", extra_content=signed))
    calls.feed({"index": 0, "function": {"arguments": "1}", "strict": True}, "cache": None})
    calls.feed(part("b", "[1", index=1))
    first, second = calls.list_calls()
    assert first == {
        "id": "functions.a:0",
        "type": "function",
        "function": {"name": "a", "arguments": '{"x":1}', "strict": True},
        "extra_content": signed,
    }
    assert second["function"] == {"name": "b", "arguments": '{"invalid_arguments":"[1"}'.replace(":", ": ")}


A, B = '{"path":"a.txt"}', '{"path":"b.txt"}'
OFFERED = ("read_file", "list_dir", "grep")


def settled(*parts: dict[str, Any]) -> list[tuple[str, Any]]:
    """The calls as they are run: names, and arguments that were settled; those that are no object as they are."""
    calls = CallNormaliser(set(), OFFERED)
    calls_by_index: dict[int, list[str]] = {}
    for delta in [*(delta for part in parts for delta in calls.feed(part)), *calls.finish()]:
        call = calls_by_index.setdefault(delta.index, ["", ""])
        call[0] += delta.name
        call[1] += delta.arguments
    listed = [listed_call["function"] for listed_call in calls.list_calls()]
    assert [function["name"] for function in listed] == [name for name, _ in calls_by_index.values()]
    texts = [repair_arguments(arguments) for _, arguments in calls_by_index.values()]
    return [
        (name, json.loads(text) if is_object(text) else text)
        for (name, _), text in zip(calls_by_index.values(), texts, strict=True)
    ]


ONE = [("read_file", {"path": "a.txt"})]
TWO = [*ONE, ("read_file", {"path": "b.txt"})]


@pytest.mark.parametrize(
    ("parts", "calls"),
    [
        pytest.param(
            [
                part("read_file", "", index=0, id="x"),
                part(arguments=A, index=0),
                part("list_dir", "", index=0, id="x"),
                part(arguments=B, index=0),
            ],
            [*ONE, ("list_dir", {"path": "b.txt"})],
            id="one index and id for two calls",
        ),
        pytest.param(
            [part("read_file", A, index=0, id="x"), part("read_file", B, index=0, id="x")],
            TWO,
            id="one index, id and name for two calls",
        ),
        pytest.param(
            [
                part("read_file", "", index=0, id="1"),
                part(arguments='{"pa', index=0, id="2"),
                part(arguments='th":"a.txt"}', index=0, id="3"),
            ],
            ONE,
            id="an id of its own for each piece",
        ),
        pytest.param(
            [part("read_file", '{"pa', index=0, id="1"), part("read_file", 'th":"a.txt"}', index=0, id="2")],
            ONE,
            id="an id of its own and the name for each piece",
        ),
        pytest.param(
            [part("read_file", '{"pa', id="1"), part(arguments='th":"a.txt"}', id="2")],
            ONE,
            id="an id of its own for each piece and no index",
        ),
        pytest.param(
            [part("read_file", "", index=0), part(arguments='{"pa', index=1), part(arguments='th":"a.txt"}', index=2)],
            ONE,
            id="an index of its own for each piece",
        ),
        pytest.param(
            [part("read_file", "", index=0, id="1"), part(arguments=A, index=0), part("read_file", A, index=0, id="1")],
            ONE,
            id="all of it again at the end",
        ),
        pytest.param(
            [part("read_file", A, index=0), part("read_file", A, index=0)], ONE, id="all of it again without an id"
        ),
        pytest.param(
            [part("read_file", A, index=0, id="1"), part("read_file", "", index=0, id="1")],
            ONE,
            id="the name at the end",
        ),
        pytest.param(
            [part("read_file", "{}", index=0, id="1"), part(arguments=A, index=0)], ONE, id="an empty object before"
        ),
        pytest.param(
            [part("read_", "", index=0, id="1"), part("file", "", index=0), part(arguments=A, index=0)],
            ONE,
            id="the name in pieces",
        ),
        pytest.param(
            [part("read_", "", index=0, id="1"), part("read_file", "", index=0), part(arguments=A, index=0)],
            ONE,
            id="the name grows",
        ),
        pytest.param(
            [part("list_dir", "", index=0), part("read_file", A, index=0)], [("list_dir", ""), *ONE], id="no arguments"
        ),
        pytest.param(
            [part("read_file", A, index=0, id="1"), part("read_file", A, index=0, id="2")],
            [*ONE, *ONE],
            id="twice the same",
        ),
    ],
)
def test_pieces_find_their_call(parts, calls):
    assert settled(*parts) == calls


def test_what_could_be_two_calls_is_left_to_be_told():
    [(name, arguments)] = settled(part("read_file", A, index=0, id="1"), part(arguments=B, index=0))
    assert (name, arguments) == ("read_file", A + B)


CALLS = st.lists(
    st.tuples(
        st.sampled_from(OFFERED), st.dictionaries(st.text(min_size=1, max_size=5), st.text(max_size=9) | st.integers())
    ),
    min_size=1,
    max_size=4,
)
STYLES = (
    "regular",
    "no index",
    "index 0",
    "name in each",
    "repeated",
    "empty first",
    "name in pieces",
    "ids of pieces",
)


def stream(style: str, number: int, name: str, pieces: list[str]) -> list[dict[str, Any]]:
    """One call in a style of leaving out, adding or repeating."""
    index = {} if style == "no index" else {"index": 0 if style == "index 0" else number}
    opened, rest = part(name, "", id=f"c{number}", **index), [part(arguments=piece, **index) for piece in pieces]
    if style in {"name in each", "repeated"}:
        again = ["".join(pieces)] if style == "repeated" else []
        return [part(name, fragment, id=f"c{number}", **index) for fragment in [*pieces, *again]]
    if style == "empty first":
        return [opened, part(arguments="{}", **index), *rest]
    if style == "name in pieces":
        return [part(name[:3], "", id=f"c{number}", **index), part(name[3:], "", **index), *rest]
    if style == "ids of pieces":
        return [opened, *({**delta, "id": f"c{number}.{at}"} for at, delta in enumerate(rest))]
    return [opened, *rest]


@given(CALLS, st.sampled_from(STYLES), st.integers(1, 7))
def test_any_pieces_of_any_calls_in_any_style_give_the_same_calls(calls, style, size):
    parts = []
    for number, (name, given_) in enumerate(calls):
        text = json.dumps(given_)
        parts += stream(style, number, name, [text[at : at + size] for at in range(0, len(text), size)])
    assert settled(*parts) == calls
