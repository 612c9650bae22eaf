from __future__ import annotations

import pytest

from core.providers.base import AnswerForm
from core.providers.wire.answer_forms import build_anthropic_format, build_openai_format

CLOSED = {
    "type": "object",
    "required": ["a"],
    "properties": {"a": {"type": "array", "items": {"type": "integer"}}},
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("schema", "is_strict"),
    [
        (CLOSED, True),
        ({**CLOSED, "required": []}, False),
        ({**CLOSED, "additionalProperties": True}, False),
        ({**CLOSED, "properties": {"a": {"type": "object"}}}, False),
        ({**CLOSED, "properties": {"a": {}}}, False),
        ({**CLOSED, "$defs": {"b": {"type": "object", "properties": {"c": {"type": "null"}}}}}, False),
    ],
)
def test_openai_holds_to_a_schema_exactly_where_each_object_lists_all_its_fields(schema, is_strict):
    assert build_openai_format(AnswerForm(schema)) == {"name": "answer", "schema": schema, "strict": is_strict}


def test_anthropic_gets_closed_objects_and_no_bounds_and_names_are_no_keywords():
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "required": ["minimum"],
        "properties": {
            "minimum": {"type": "integer", "minimum": 1, "maximum": 3},
            "rows": {"type": "array", "minItems": 2, "items": {"type": "object", "additionalProperties": True}},
            "map": {"type": "object", "additionalProperties": {"type": "string", "minLength": 1}},
            "either": {"anyOf": [{"type": "string", "pattern": "x"}, {"type": "null"}]},
            "kind": {"enum": ["minimum", "pattern"], "default": {"pattern": 1}},
        },
    }
    assert build_anthropic_format(AnswerForm(schema)) == {
        "type": "json_schema",
        "schema": {
            "type": "object",
            "required": ["minimum"],
            "properties": {
                "minimum": {"type": "integer"},
                "rows": {"type": "array", "items": {"type": "object", "additionalProperties": False}},
                "map": {"type": "object", "additionalProperties": {"type": "string"}},
                "either": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "kind": {"enum": ["minimum", "pattern"], "default": {"pattern": 1}},
            },
            "additionalProperties": False,
        },
    }
