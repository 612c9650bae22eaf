"""A tool's arguments: from the JSON text of a model to a checked record, or an error in words that it can act on.

Tolerant where the meaning is certain (null for an optional argument, or "" and "null" where no text can stand, "5" for
5, a list sent as a string, names and forms that other agents' tools have for an argument); strict everywhere else:
unknown or doubled arguments are refused, and only what a tool names (`ignored_arguments`) is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import msgspec

from core.errors import ToolInputInvalid
from core.records import convert, decode_json, parse_json
from core.text.similarity import find_nearest_names
from core.tools.base import Tool, ToolType
from core.tools.external import ExternalTool
from core.tools.schema import build_offered_schema, build_parameters, describe_schema

MAX_BYTES = 5_000_000
_NOTHING = frozenset({"", "null", "none", "undefined"})  # as models write that they give no value
_NO_TEXTS = frozenset({"integer", "number", "boolean", "array", "object", "null"})


def convert_arguments(tool: ToolType, arguments: str) -> Tool[Any]:
    """The call as a record of `tool`. Raises `ToolInputInvalid`."""
    if issubclass(tool, ExternalTool):  # what a server's tool takes is checked by the server
        return tool(arguments=_decode_object(tool, arguments))
    raw_arguments = _decode_object(tool, arguments)
    _refuse_null(tool, raw_arguments)
    adapted_arguments = _rename_arguments(tool, tool.adapt_arguments(raw_arguments))
    schema = build_parameters(tool)
    for name, value in adapted_arguments.items():
        if (kind := schema["properties"][name]).get("type") == "array":
            adapted_arguments[name] = _normalize_items(tool, value, kind["items"].get("properties", {}))
    _refuse_null(tool, adapted_arguments)
    required_names, kinds = schema["required"], schema["properties"]
    present_arguments = {
        name: value
        for name, value in adapted_arguments.items()
        if name in required_names or not _is_nothing(value, kinds[name])
    }
    try:
        return convert(present_arguments, tool, strict=False)
    except msgspec.ValidationError as error:
        raise _build_error(tool, str(error)) from error


def _decode_object(tool: ToolType, arguments: str) -> dict[str, Any]:
    if len(arguments) > MAX_BYTES:
        raise ToolInputInvalid(
            f"The arguments of {tool.name} are too large: {len(arguments):,} characters, at most {MAX_BYTES:,}.",
            hint="Do the work in several smaller calls.",
        )
    if not arguments.strip():
        return {}
    try:
        decode_json(arguments)  # stricter than json about surrogates, and it bounds the nesting
        value = parse_json(arguments, object_pairs_hook=_reject_duplicates, parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:
        raise _build_error(tool, f"this is no valid JSON ({error})") from error
    if not isinstance(value, dict):
        raise _build_error(tool, f"expected an object, got {type(value).__name__}")
    return value


def _is_nothing(value: Any, schema: dict[str, Any]) -> bool:
    """True for null, and for its words where the argument can be no text."""
    if not isinstance(value, str):
        return value is None
    if value.strip().lower() not in _NOTHING:
        return False
    forms = schema.get("anyOf", (schema,))
    return all(value not in form["enum"] if "enum" in form else form.get("type") in _NO_TEXTS for form in forms)


def _refuse_null(tool: ToolType, arguments: Mapping[str, Any]) -> None:
    """Raise `ToolInputInvalid` for a NUL character in a text at any depth: the system ends a path or a word there."""
    for name, value in arguments.items():
        if _holds_null(value):
            problem = "holds a NUL character (U+0000), which no path, pattern or text may have here"
            raise _build_error(tool, f"{name} {problem}")


def _holds_null(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, dict):
        return any(map(_holds_null, (*value, *value.values())))
    return isinstance(value, list) and any(map(_holds_null, value))


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        duplicate = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{duplicate!r} is given more than once")
    return members


def _reject_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON number")


def _rename_arguments(tool: ToolType, arguments: dict[str, Any]) -> dict[str, Any]:
    properties = build_parameters(tool)["properties"]
    renamed_arguments: dict[str, Any] = {}
    for name, value in arguments.items():
        argument_name = name if name in properties else tool.argument_names.get(name, name)
        if argument_name not in properties:
            if name in tool.ignored_arguments:
                continue
            nearest_names = find_nearest_names(name, properties)
            hint = f"Did you mean {nearest_names[0]}? " if nearest_names else ""
            raise ToolInputInvalid(
                f"{tool.name} has no argument {name!r}.", hint=f"{hint}Its arguments: {', '.join(properties)}."
            )
        if argument_name in renamed_arguments:
            raise ToolInputInvalid(f"{argument_name} of {tool.name} is given twice ({name!r} means the same).")
        renamed_arguments[argument_name] = value
    return renamed_arguments


def _normalize_items(tool: ToolType, value: Any, properties: dict[str, Any]) -> Any:
    """A list argument: also one that was sent as its JSON text, and with the other names in use inside its items."""
    if isinstance(value, str):
        try:
            value = parse_json(value, object_pairs_hook=_reject_duplicates)
        except (ValueError, RecursionError):
            return value
    if not isinstance(value, list):
        return value
    return [_rename_item(tool, item, properties) if isinstance(item, dict) else item for item in value]


def _rename_item(tool: ToolType, item: dict[str, Any], properties: dict[str, Any]) -> dict[str, Any]:
    canonical_names = {name: tool.argument_names.get(name, name) for name in item if name not in properties}
    clear = {name: new for name, new in canonical_names.items() if new in properties and new not in item}
    ignored_names = tool.ignored_arguments - properties.keys() if properties else frozenset()
    return {clear.get(name, name): value for name, value in item.items() if name not in ignored_names}


def _build_error(tool: ToolType, problem: str) -> ToolInputInvalid:
    schema = build_offered_schema(tool)
    required_names = schema.get("required", [])
    descriptions = (
        f"{name} ({describe_schema(property_schema)})" for name, property_schema in schema["properties"].items()
    )
    requirement = f"Required: {', '.join(required_names)}. " if required_names else ""
    return ToolInputInvalid(
        f"The arguments of {tool.name} are wrong: {problem[:500]}.",
        hint=f"{requirement}All arguments: {', '.join(descriptions)}. Nothing was run; call again, corrected.",
    )
