"""A tool's JSON Schema: whole, for checking a call, and as models are sent it.

Hosts differ in what of JSON Schema they take, and one word too many refuses the whole request (Gemini: `const`,
`exclusiveMinimum`, `uniqueItems`; others `additionalProperties`, `default`, an empty `required`). So only the words
that all of them know are sent; what else a call has to keep to stands in the descriptions and is checked here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from core.tools.base import ToolType

SENT = ("type", "description", "enum", "items", "properties", "required")


@cache
def build_parameters(tool: ToolType) -> dict[str, Any]:
    """The schema of a tool's arguments. Shared: copy it before changing it."""
    schema = msgspec.json.schema(tool)
    definitions = schema.pop("$defs", {})
    flat = _inline_definitions(schema, definitions)
    return {
        "type": "object",
        "properties": flat.get("properties", {}),
        "required": flat.get("required", []),
        "additionalProperties": False,
    }


@cache
def build_offered_schema(tool: ToolType) -> dict[str, Any]:
    """Return what a model is sent of the arguments: those with a description, in `SENT` words. Shared, as above."""
    return _simplify(build_parameters(tool)) | {"type": "object"}


def describe_schema(schema: Mapping[str, Any]) -> str:
    """A type in a few words: `list of {statement, expected}`."""
    if "enum" in schema:
        return " | ".join(schema["enum"])
    if "items" in schema:
        return f"list of {describe_schema(schema['items'])}"
    if "properties" in schema:
        required_names = schema.get("required", ())
        parts = (
            f"{name}{'' if name in required_names else '?'}: {describe_schema(field)} ({field['description']})"
            for name, field in schema["properties"].items()
        )
        return "{" + "; ".join(parts) + "}"
    return str(schema["type"])


def _simplify(schema: dict[str, Any]) -> dict[str, Any]:
    simple_schema = {key: schema[key] for key in SENT if schema.get(key)}
    if "items" in simple_schema:
        simple_schema["items"] = _simplify(simple_schema["items"])
    if schema.get("type") == "object":
        inner = schema.get("properties", {})
        simple_schema["properties"] = {
            name: _simplify(field) for name, field in inner.items() if "description" in field
        }
    return simple_schema


def _inline_definitions(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """References replaced by what they refer to; the words beside a reference win over those inside."""
    if "$ref" in schema:
        siblings = {key: value for key, value in schema.items() if key != "$ref"}
        schema = definitions[schema["$ref"].rsplit("/", 1)[-1]] | siblings
    result = {key: value for key, value in schema.items() if key != "title" and value not in ("", None, [], ())}
    for key in ("items", "additionalProperties"):
        if isinstance(result.get(key), dict):
            result[key] = _inline_definitions(result[key], definitions)
    if "anyOf" in result:
        choices = [
            _inline_definitions(choice, definitions) for choice in result["anyOf"] if choice.get("type") != "null"
        ]
        result = _merge_choices(result, choices)
    if "enum" in result:
        result = {"type": "string"} | result | {"enum": [value for value in result["enum"] if value is not None]}
    if "properties" in result:
        result["properties"] = {
            name: _inline_definitions(inner, definitions) for name, inner in result["properties"].items()
        }
    return result


def _merge_choices(schema: dict[str, Any], choices: list[dict[str, Any]]) -> dict[str, Any]:
    """ "This or nothing" is this, as an argument may be left out anyway."""
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    return choices[0] | rest if len(choices) == 1 else rest | {"anyOf": choices}
