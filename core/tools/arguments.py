"""Arguments of tool calls: the JSON Schemas that describe them to a model, and the conversion of a model's JSON.

An argument is found under its own name, under those that other agents give it, and in any spelling of them
(`filePath`, `file_path`). One that no tool of ours has is ignored and named where the tool only reads or asks. Where it
may change what is written or run, it fails the call.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NoReturn

import msgspec
from msgspec import Struct

from core.errors import ToolInputInvalid
from core.records import convert, decode_json, parse_json
from core.text.similarity import find_closest, find_nearest_names
from core.tools.base import Tool, ToolType
from core.tools.external import ExternalTool

SENT = ("type", "description", "enum", "items", "properties", "required")
MAX_BYTES = 5_000_000
_TYPING_ERROR = 0.8  # The similarity of an ignored name and the argument that was most likely meant.
_NOTHING = frozenset({"", "null", "none", "undefined"})  # The values that models write for an omitted argument.
_NO_TEXTS = frozenset({"integer", "number", "boolean", "array", "object", "null"})


@cache
def build_parameters(tool: ToolType) -> dict[str, Any]:
    """Return the schema of a tool's arguments. It is shared: copy it before changing it."""
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
    """Return the schema that a model is sent: arguments with a description, reduced to the keywords in `SENT`. It is
    shared, as above."""
    return _simplify(build_parameters(tool)) | {"type": "object"}


def describe_schema(schema: Mapping[str, Any]) -> str:
    """Describe a type in a few words: `list of {statement, expected}`."""
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
    if schema.get("type") == "object" and "properties" in schema:
        inner = schema.get("properties", {})
        simple_schema["properties"] = {
            name: _simplify(field) for name, field in inner.items() if "description" in field
        }
    return simple_schema


def _inline_definitions(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Replace references by their definitions; keywords next to a reference override those of the definition."""
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
    """Reduce "this type or null" to this type, since an argument may be omitted anyway."""
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    return choices[0] | rest if len(choices) == 1 else rest | {"anyOf": choices}


class ParsedCall(Struct, frozen=True):
    """A checked call. `ignored`: the names of its arguments that the tool does not have."""

    tool: Tool[Any]
    ignored: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what the model has to know about its arguments."""
        if not self.ignored:
            return ()
        properties = list(build_parameters(type(self.tool))["properties"])
        guesses = {name: find_closest(name, properties, limit=1, cutoff=_TYPING_ERROR) for name in self.ignored}
        names = (
            f"{name!r}{f' (did you mean {properties[guess[0][0]]}?)' if guess else ''}"
            for name, guess in guesses.items()
        )
        return (f"{self.tool.name} has no argument {' and no '.join(names)}: it did its work without",)


def convert_arguments(tool: ToolType, arguments: str) -> Tool[Any]:
    """Return the call as a record of `tool`. Raises `ToolInputInvalid`."""
    return parse_call(tool, arguments).tool


def parse_call(tool: ToolType, arguments: str) -> ParsedCall:
    """Return the call of `tool` with `arguments`, JSON as text. Raises `ToolInputInvalid`."""
    if issubclass(tool, ExternalTool):  # A server checks the arguments of its own tools.
        return ParsedCall(tool(arguments=_decode_object(tool, arguments)))
    raw_arguments = _decode_object(tool, arguments)
    _refuse_null(tool, raw_arguments)
    adapted_arguments, ignored_names = _rename_arguments(tool, tool.adapt_arguments(raw_arguments))
    schema = build_parameters(tool)
    for name, value in adapted_arguments.items():
        if (kind := schema["properties"][name]).get("type") == "array":
            items, unknown_names = _normalize_items(tool, value, kind["items"].get("properties", {}))
            adapted_arguments[name] = items
            ignored_names += unknown_names
    _refuse_null(tool, adapted_arguments)
    required_names, kinds = schema["required"], schema["properties"]
    present_arguments = {
        name: value
        for name, value in adapted_arguments.items()
        if name in required_names or not _is_nothing(value, kinds[name])
    }
    try:
        return ParsedCall(convert(present_arguments, tool, strict=False), tuple(dict.fromkeys(ignored_names)))
    except msgspec.ValidationError as error:
        raise _build_error(tool, str(error)) from error


def _decode_object(tool: ToolType, arguments: str) -> dict[str, Any]:
    if len(arguments) > MAX_BYTES:
        raise ToolInputInvalid(
            f"The arguments of {tool.name} are too large: {len(arguments):,} characters, at most {MAX_BYTES:,}.",
            hint="Split the work into smaller calls.",
        )
    if not arguments.strip():
        return {}
    try:
        decode_json(arguments)  # Stricter than `json` about surrogates, and bounded in depth.
        value = parse_json(arguments, object_pairs_hook=_reject_duplicates, parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:
        raise _build_error(tool, f"this is not valid JSON ({error})") from error
    if not isinstance(value, dict):
        raise _build_error(tool, f"expected an object, got {type(value).__name__}")
    return value


def _is_nothing(value: Any, schema: dict[str, Any]) -> bool:
    """Return True for null, and for its spellings where the argument can't be a text."""
    if not isinstance(value, str):
        return value is None
    if value.strip().lower() not in _NOTHING:
        return False
    forms = schema.get("anyOf", (schema,))
    return all(value not in form["enum"] if "enum" in form else form.get("type") in _NO_TEXTS for form in forms)


def _refuse_null(tool: ToolType, arguments: Mapping[str, Any]) -> None:
    """Raise `ToolInputInvalid` for a NUL character in a text at any depth: the system ends a path or an
    argument there."""
    for name, value in arguments.items():
        if _holds_null(value):
            problem = "contains a NUL character (U+0000), which no path, pattern or text may have here"
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
    raise ValueError(f"{word} is not a JSON number")


def _fold(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


@cache
def _list_spellings(tool: ToolType) -> Mapping[str, str]:
    """Return the arguments of a tool by every name of theirs, without its case and its separators. A flag such as `-A`
    is only itself."""
    names = {name: name for name in build_parameters(tool)["properties"]} | dict(tool.argument_names)
    return {_fold(name): argument_name for name, argument_name in reversed(names.items()) if name[0] != "-"}


def _find_argument(tool: ToolType, name: str) -> str:
    """Return the argument that a model means by a name, or the name itself."""
    if name in build_parameters(tool)["properties"]:
        return name
    return tool.argument_names.get(name) or _list_spellings(tool).get(_fold(name), name)


def _means_nothing(tool: ToolType, name: str, value: Any) -> bool:
    """Return True for an argument that a call of `tool` may hold without another meaning."""
    ignored_names, assumed_values = _list_meaningless(tool)
    key = name if name.startswith("-") else _fold(name)
    if value is None or key in ignored_names:
        return True
    assumed = assumed_values.get(key)
    return key in assumed_values and (value == assumed or str(value).lower() == str(assumed).lower())


@cache
def _list_meaningless(tool: ToolType) -> tuple[frozenset[str], Mapping[str, object]]:
    """Return the ignored arguments of a tool, and the assumed ones with their values, as `_list_spellings` writes
    names."""
    assumed_values = {
        name if name.startswith("-") else _fold(name): value for name, value in tool.assumed_arguments.items()
    }
    return frozenset(map(_fold, tool.ignored_arguments)), assumed_values


def _rename_arguments(tool: ToolType, arguments: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the arguments under the tool's own names, and the names of those that are ignored."""
    properties = build_parameters(tool)["properties"]
    renamed_arguments: dict[str, Any] = {}
    ignored_names: list[str] = []
    for name, value in arguments.items():
        argument_name = _find_argument(tool, name)
        if argument_name not in properties:
            if _means_nothing(tool, name, value):
                continue
            if not tool.ignores_unknown:
                raise _build_unknown_error(tool, name, properties)
            ignored_names.append(name)
        elif argument_name in renamed_arguments:
            if renamed_arguments[argument_name] != value:
                raise ToolInputInvalid(f"{argument_name} of {tool.name} is given twice ({name!r} means the same).")
        else:
            renamed_arguments[argument_name] = value
    return renamed_arguments, ignored_names


def _build_unknown_error(tool: ToolType, name: str, properties: Mapping[str, Any]) -> ToolInputInvalid:
    nearest_names = find_nearest_names(name, properties)
    hint = f"Did you mean {nearest_names[0]}? " if nearest_names else ""
    return ToolInputInvalid(
        f"{tool.name} has no argument {name!r}, so nothing was done.",
        hint=f"{hint}Its arguments: {', '.join(properties)}.",
    )


def _normalize_items(tool: ToolType, value: Any, properties: dict[str, Any]) -> tuple[Any, list[str]]:
    """Return a list argument with the names inside its items resolved, and the ignored names in them. The list may come
    as its JSON text, and one text alone as itself."""
    if isinstance(value, str):
        try:
            value = parse_json(value, object_pairs_hook=_reject_duplicates)
        except (ValueError, RecursionError):
            return ([value] if not properties and value.strip() else value), []
    if not isinstance(value, list):
        return value, []
    items, ignored_names = [], []
    for item in value:
        is_record = isinstance(item, dict) and bool(properties)
        renamed_item, unknown_names = _rename_item(tool, item, properties) if is_record else (item, [])
        ignored_names += unknown_names
        items.append(renamed_item)
    return items, ignored_names


def _rename_item(tool: ToolType, item: dict[str, Any], properties: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    spellings = {**_list_spellings(tool), **{_fold(name): name for name in properties}}
    renamed_item: dict[str, Any] = {}
    ignored_names: list[str] = []
    for name, value in item.items():
        alias = tool.argument_names.get(name) or spellings.get(_fold(name), name)
        own_name = name if name in properties else spellings.get(_fold(alias), alias)
        if value is None or (own_name not in properties and _means_nothing(tool, name, value)):
            continue
        if own_name not in properties and tool.ignores_unknown:
            ignored_names.append(name)
            continue
        if own_name != name and (own_name in item or own_name in renamed_item):
            own_name = name
        renamed_item[own_name] = value
    return renamed_item, ignored_names


def _build_error(tool: ToolType, problem: str) -> ToolInputInvalid:
    schema = build_offered_schema(tool)
    required_names = schema.get("required", [])
    descriptions = (
        f"{name} ({describe_schema(property_schema)})" for name, property_schema in schema["properties"].items()
    )
    requirement = f"Required: {', '.join(required_names)}. " if required_names else ""
    return ToolInputInvalid(
        f"The arguments of {tool.name} are wrong: {problem[:500]}.",
        hint=f"{requirement}All arguments: {', '.join(descriptions)}. Nothing was run; fix the call.",
    )
