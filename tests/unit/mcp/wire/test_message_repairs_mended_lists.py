"""What comes from a server is mended only so far that one odd tool does not cost all the others."""

from __future__ import annotations

import pytest

from core.mcp.wire.message_repairs import repair_lists, repair_tools

GOOD = {"name": "good", "description": "Does it.", "inputSchema": {"type": "object", "properties": {"a": {}}}}


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"type": "object"}]},
        {"oneOf": [], "type": ["object", "null"]},
        {},
        {"type": "string"},
    ],
)
def test_a_schema_of_arguments_is_one_of_an_object(schema):
    (mended,) = repair_tools([{"name": "odd", "inputSchema": schema}])
    assert mended["inputSchema"] == {**schema, "type": "object"}


@pytest.mark.parametrize(
    ("schema", "mended"),
    [
        ({"properties": {"type": "object", "a": {}}}, {"properties": {"type": {}, "a": {}}}),
        ({"properties": {"a": None, "b": True}}, {"properties": {"a": {}, "b": True}}),
        ({"properties": ["a"], "required": "a"}, {}),
        ({"required": ["a", 1, None]}, {"required": ["a"]}),
    ],
)
def test_a_property_whose_schema_is_none_may_be_anything(schema, mended):
    result = {"tools": [{"name": "odd", "inputSchema": schema}, GOOD]}
    repair_lists(result)
    assert result["tools"] == [{"name": "odd", "inputSchema": {**mended, "type": "object"}}, GOOD]


@pytest.mark.parametrize(
    ("key", "good", "bad"),
    [
        ("tools", GOOD, {"name": "bad", "_meta": {"": 1}, "inputSchema": {"$schema": 7}}),
        ("resources", {"uri": "a://b", "name": "b"}, {"uri": 7, "name": "b"}),
        ("resourceTemplates", {"uriTemplate": "a://{b}", "name": "b"}, {"name": []}),
        ("prompts", {"name": "a"}, {"name": "b", "arguments": "none"}),
    ],
)
def test_an_entry_that_the_protocol_refuses_goes_alone(key, good, bad):
    result = {key: [bad, good, None, 7, "text"], "nextCursor": 2}
    repair_lists(result)
    assert good in result[key]
    assert len(result[key]) <= 2
    assert result["nextCursor"] == "2"


@pytest.mark.parametrize("tool", [None, 1, {}, {"name": ""}, {"name": 1}, {"name": "x" * 129}, []])
def test_what_can_not_be_called_by_a_name_is_left_out_and_the_others_stay(tool):
    assert repair_tools([tool, GOOD]) == [GOOD]


def test_what_is_not_as_the_protocol_wants_it_is_left_out_of_a_tool():
    odd = {
        **GOOD,
        "description": 1,
        "inputSchema": None,
        "outputSchema": {"type": "array"},
        "annotations": {"readOnlyHint": True, "title": 1, "idempotentHint": []},
        "icons": "none",
        "_meta": [],
    }
    assert repair_tools([odd]) == [
        {"name": "good", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
    ]


def test_what_a_tool_says_of_itself_stays():
    fields = {"annotations": {"readOnlyHint": True}, "_meta": {"anthropic/maxResultSizeChars": 9}, "title": "Good"}
    tool = {**GOOD, **fields, "outputSchema": {"type": "object"}}
    assert repair_tools([tool]) == [tool]
