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
        needed = schema.get("required", ())
        parts = (
            f"{name}{'' if name in needed else '?'}: {describe_schema(each)} ({each['description']})"
            for name, each in schema["properties"].items()
        )
        return "{" + "; ".join(parts) + "}"
    return str(schema["type"])


def _simplify(schema: dict[str, Any]) -> dict[str, Any]:
    out = {key: schema[key] for key in SENT if schema.get(key)}
    if "items" in out:
        out["items"] = _simplify(out["items"])
    if schema.get("type") == "object":
        inner = schema.get("properties", {})
        out["properties"] = {name: _simplify(each) for name, each in inner.items() if "description" in each}
    return out


def _inline_definitions(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """References replaced by what they refer to; the words beside a reference win over those inside."""
    if "$ref" in schema:
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        schema = definitions[schema["$ref"].rsplit("/", 1)[-1]] | beside
    out = {key: value for key, value in schema.items() if key != "title" and value not in ("", None, [], ())}
    for key in ("items", "additionalProperties"):
        if isinstance(out.get(key), dict):
            out[key] = _inline_definitions(out[key], definitions)
    if "anyOf" in out:
        choices = [_inline_definitions(choice, definitions) for choice in out["anyOf"] if choice.get("type") != "null"]
        out = _merge_choices(out, choices)
    if "enum" in out:
        out = {"type": "string"} | out | {"enum": [value for value in out["enum"] if value is not None]}
    if "properties" in out:
        out["properties"] = {name: _inline_definitions(inner, definitions) for name, inner in out["properties"].items()}
    return out


def _merge_choices(schema: dict[str, Any], choices: list[dict[str, Any]]) -> dict[str, Any]:
    """ "This or nothing" is this, as an argument may be left out anyway."""
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    return choices[0] | rest if len(choices) == 1 else rest | {"anyOf": choices}
