"""The schema of an answer in the forms of the APIs, each of which accepts only a part of JSON Schema.

What is left out here is no loss: whoever asks for the answer checks it against the whole schema. A schema that an API
refuses is left out as a whole (see the fields that can be dispensed with), and the prompt's words have to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from core.providers.base import AnswerForm

NAME: Final = "answer"
# Keywords that Anthropic's API refuses.
_BOUNDS: Final = frozenset(
    ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern",
     "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "$schema", "$id")
)  # fmt: skip
_NAMED: Final = ("properties", "$defs", "definitions", "patternProperties")  # Their keys are names, not keywords.
_LISTED: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE: Final = ("items", "additionalProperties", "not", "contains")


def build_openai_format(form: AnswerForm) -> dict[str, Any]:
    """Build the form of an answer for OpenAI, exact where the schema allows it: an object lists all its fields."""
    is_strict = all(map(_is_closed, _walk(form.schema)))
    return {"name": NAME, "schema": form.schema, "strict": is_strict}


def build_anthropic_format(form: AnswerForm) -> dict[str, Any]:
    """Build the form of an answer for Anthropic, whose objects are closed and whose values have no bounds."""
    return {"type": "json_schema", "schema": _close(form.schema)}


def _is_closed(schema: Mapping[str, Any]) -> bool:
    if schema.get("type") != "object":
        return "type" in schema or "enum" in schema or "const" in schema or "$ref" in schema or "anyOf" in schema
    fields = schema.get("properties") or {}
    return schema.get("additionalProperties") is False and set(schema.get("required") or ()) == set(fields)


def _walk(schema: object) -> Iterator[Mapping[str, Any]]:
    """Yield a schema and those in it."""
    if not isinstance(schema, dict):
        return
    yield schema
    for child in _list_children(schema):
        yield from _walk(child)


def _list_children(schema: Mapping[str, Any]) -> Iterator[object]:
    for name in _NAMED:
        fields = schema.get(name)
        yield from fields.values() if isinstance(fields, dict) else ()
    for name in _LISTED:
        parts = schema.get(name)
        yield from parts if isinstance(parts, list) else ()
    yield from (schema[name] for name in _SINGLE if name in schema)


def _close(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    closed: dict[str, Any] = {}
    for name, value in schema.items():
        if name in _BOUNDS:
            continue
        if name in _NAMED and isinstance(value, dict):
            closed[name] = {key: _close(child) for key, child in value.items()}
        elif name in _LISTED and isinstance(value, list):
            closed[name] = [_close(child) for child in value]
        else:
            closed[name] = _close(value) if name in _SINGLE else value
    if closed.get("type") == "object" and closed.get("additionalProperties", True) is True:
        closed["additionalProperties"] = False
    return closed
