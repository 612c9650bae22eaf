from __future__ import annotations

from typing import Any

import pytest

from core.protocol.messages import AssistantMessage, ToolCall, UserMessage
from core.providers.wire.tool_calls import CallNormaliser, collect_call_ids


def part(name: str | None = None, arguments: Any = None, **rest: Any) -> dict[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {"type": "function", "function": function, **rest}


def played(*parts: dict[str, Any], taken: set[str] | None = None) -> list[tuple[str, str, str]]:
    calls = CallNormaliser(set() if taken is None else taken)
    found: dict[int, list[str]] = {}
    for delta in [*(delta for each in parts for delta in calls.feed(each)), *calls.finish()]:
        call = found.setdefault(delta.index, ["", "", ""])
        assert not (delta.id and call[0]), "an id came twice"
        assert not (delta.name and call[1]), "a name came twice"
        for place, text in enumerate((delta.id, delta.name, delta.arguments)):
            call[place] += text
    assert list(found) == list(range(len(found)))
    return [(call[0], call[1], call[2]) for call in found.values()]


def names_and_arguments(*parts: dict[str, Any]) -> list[tuple[str, str]]:
    calls = played(*parts)
    assert len({each[0] for each in calls}) == len(calls)
    assert all(each[0] for each in calls)
    return [each[1:] for each in calls]


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
    found = names_and_arguments(*parts)
    assert [(name, arguments.replace(" ", "")) for name, arguments in found] == [("a", '{"x":1}'), ("b", "{}")]


def test_the_id_may_come_after_the_name():
    assert names_and_arguments(part("a", "", index=0), part(arguments="{}", index=0, id="late")) == [("a", "{}")]


def test_two_calls_of_the_same_tool_with_ids_stay_two():
    found = names_and_arguments(part("a", "{}", id="1", index=0), part("a", "{}", id="2", index=0))
    assert found == [("a", "{}"), ("a", "{}")]


def test_v4_an_id_that_the_history_has_is_replaced():
    call = ToolCall(id="call_0", name="a", arguments="{}")
    taken = collect_call_ids((UserMessage(content="x"), AssistantMessage(tool_calls=(call,))))
    (found,) = played(part("a", "{}", index=0, id="call_0"), taken=taken)
    assert found[0] != "call_0"
    assert taken == {"call_0"}


@pytest.mark.parametrize("unusable", ["", "with space", "x" * 65, "ä", 7, None])
def test_an_id_that_no_api_takes_is_replaced(unusable):
    (found,) = played(part("a", "{}", index=0, id=unusable))
    assert found[0].startswith("call_")


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
