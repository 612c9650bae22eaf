"""What stands round a call is taken off where one reading is left, and nothing that is valid is touched."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.text.json_repairs import (
    extract_call_name,
    is_object,
    may_be_complete,
    repair_arguments,
)

WHOLE = '{"path": "a.txt"}'
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
OBJECTS = st.dictionaries(st.text(), VALUES, min_size=1, max_size=4)
MARKS = [
    "{}",
    "```",
    "```json",
    "```json\n",
    "```json5\n",
    "</tool_call>",
    "<|end|>",
    "<｜end｜>",
    "}",
    "]",
    "`",
    "end",
]
SPACES = [" ", "\n", "\t", "\x1c", "\xa0", "\u2028"]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(WHOLE),
        json.dumps(json.dumps(WHOLE)),
        f"{WHOLE}}}",
        f"{WHOLE}]}}",
        f"{WHOLE}\n</tool_call>",
        f"<tool_call>\n{WHOLE}\n</tool_call>",
        f"```json\n{WHOLE}\n```",
        f"```\n{WHOLE}```",
        f"{{}}{WHOLE}",
        f"{WHOLE}{WHOLE}",
        f'{WHOLE}{{"path":"a.txt"}}',
        f"{{}}{WHOLE}{WHOLE}",
        f"{WHOLE}<|tool_call_end|>",
        f"{WHOLE}<｜tool▁call▁end｜>",
    ],
)
def test_one_object_is_read_whatever_stands_round_it(text):
    assert json.loads(repair_arguments(text)) == json.loads(WHOLE)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[1]",
        '"only words"',
        '{"a": 1}{"b": 2}',
        '{"a": 1}, "b": 2}',
        '{"a": "cut',
        '{"a": 1',
        '{"a": 1} and more',
        '{"a": "x \\\ny"}',
        "{'a': 1}",
    ],
)
def test_what_is_none_or_could_be_two_stays_as_it_came(text):
    assert repair_arguments(text) == text


def test_line_ends_and_tabs_in_strings_are_escaped_and_nothing_else():
    raw, escaped = '{"a": "one\n\ttwo\\\\",\n "b": "\\"\n"}', '{"a": "one\\n\\ttwo\\\\",\n "b": "\\"\\n"}'
    assert repair_arguments(raw) == escaped


@given(OBJECTS, st.sampled_from([None, 0, 2]), st.text(" \n\t", max_size=3))
def test_a_valid_object_is_never_touched(value, indent, space):
    text = f"{space}{json.dumps(value, indent=indent)}{space}"
    assert repair_arguments(text) == text


@given(OBJECTS, st.integers(0, 3), st.sampled_from(["", "}", "\n</tool_call>", "\n```"]))
def test_layers_of_encoding_are_taken_off(value, layers, end):
    text = json.dumps(value)
    for _ in range(layers):
        text = json.dumps(text)
    assert json.loads(repair_arguments(text + end)) == value


@given(st.text())
def test_any_text_is_returned_or_becomes_an_object(text):
    settled = repair_arguments(text)
    assert settled == text or isinstance(json.loads(settled), dict)


@given(
    st.sampled_from(["", *MARKS, *SPACES]),
    st.sampled_from([WHOLE, json.dumps(WHOLE), f"{WHOLE}{WHOLE}"]) | OBJECTS.map(json.dumps),
    st.lists(st.sampled_from([*MARKS, *SPACES]), max_size=3).map("".join),
)
@example("", WHOLE, "```json")
@example("", WHOLE, "```json5\n")
@example("", WHOLE, "}]")
@example("", WHOLE, "</tool_call>\x1c")
def test_what_can_not_be_whole_by_its_end_is_never_made_an_object_of(start, arguments, end):
    text = start + arguments + end
    assert may_be_complete(text) or not is_object(repair_arguments(text))


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("grep", "grep"),
        ("mcp__server__tool-1", "mcp__server__tool-1"),
        (" grep ", "grep"),
        ("grep<|channel|>commentary", "grep"),
        ("functions.grep", "grep"),
        ("functions.grep:0", "grep"),
        ("functions.grep:12", "grep"),
        ("default_api.grep", "grep"),
        ("tools.grep", "grep"),
        ("grep()", "grep"),
        ("`grep`", "grep"),
        ("grep</tool_call>", "grep"),
        ("commentary to=functions.grep", "grep"),
        ("my.tool", "my.tool"),
        ("no tool at all", "no tool at all"),
        ("", ""),
    ],
)
def test_the_name_is_found_in_what_is_put_round_it(name, bare):
    assert extract_call_name(name) == bare
