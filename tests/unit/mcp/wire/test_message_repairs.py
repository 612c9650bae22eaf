"""Lines of a server as messages: an answer is one whatever it is made of, and nothing else is taken for one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.mcp.wire.message_repairs import parse_messages, repair_message
from tests.support.odd_server import ANSWERS

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("kind", ANSWERS)
def test_each_odd_answer_is_one_message_that_names_its_call_or_is_an_error(kind):
    (message,) = parse_messages(ANSWERS[kind].replace("@", "7"))
    assert str(message.id) == "7" or message.id is None or kind == "number_of_nobody"
    assert message.id is not None or hasattr(message, "error")


@given(st.dictionaries(st.sampled_from(["id", "result", "error", "jsonrpc"]), VALUES), st.integers(0, 99))
def test_any_object_that_has_a_result_or_an_error_and_the_number_of_a_call_ends_that_call(fields, number):
    answer = {"jsonrpc": "2.0", "result": None, **fields, "id": number}
    (message,) = parse_messages(json.dumps(answer))
    assert message.id == number
    assert not hasattr(message, "method")


@given(VALUES)
def test_any_value_is_read_without_a_fault(value):
    assert all(hasattr(message, "method") or hasattr(message, "id") for message in parse_messages(json.dumps(value)))
    assert repair_message(value) is None or isinstance(value, dict)


@pytest.mark.parametrize(
    "line",
    [
        "INFO ready",
        '{"level":"error","id":3,"error":"x","logger":"main"}',
        '{"id":3,"msg":"of a log"}',
        '{"jsonrpc":"2.0","method":"notifications/message","params":{"id":3,"da',
        '{"id": 3, "half',
        "[1, 2]",
        "null",
    ],
)
def test_a_line_of_a_log_is_no_message(line):
    assert parse_messages(line) == []


def test_a_request_with_odd_parameters_is_asked_without_them_so_that_it_is_answered():
    (message,) = parse_messages('{"jsonrpc":"2.0","id":"a","method":"roots/list","params":[1]}')
    assert (message.id, message.method, message.params) == ("a", "roots/list", None)
