"""Lists of servers as the protocol wants them, mended on their way to the SDK.

The SDK refuses the whole of a list for one entry that is not so, and with it all the tools of a server. What it can't
be without is put there, what is odd is left out, and an entry that it refuses all the same goes alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

MAX_NAME: Final = 128  # characters of the name of a tool
_TOOL_KEYS: Final = {"title": str, "description": str, "inputSchema": dict, "annotations": dict, "_meta": dict}
_METHODS: Final = {
    "tools": "tools/list",
    "resources": "resources/list",
    "resourceTemplates": "resources/templates/list",
    "prompts": "prompts/list",
}
_CHECKED_VERSION: Final = "2025-11-25"  # what its list of types refuses in an entry, those of the others refuse, too


def mend_lists(result: dict[str, Any]) -> None:
    """Mend the lists in the result of a request, in place: each entry stands or goes by itself."""
    for key, method in _METHODS.items():
        if isinstance(entries := result.get(key), list):
            mended_entries = (
                mend_tools(entries) if key == "tools" else [entry for entry in entries if isinstance(entry, dict)]
            )
            result[key] = [entry for entry in mended_entries if _is_valid(method, key, entry)]
            if not isinstance(cursor := result.get("nextCursor"), str | None):
                result["nextCursor"] = str(cursor)


def mend_tools(tools: list[Any]) -> list[dict[str, Any]]:
    """Return the tools that can be called, of each what is as the protocol wants it. A schema of arguments is one of an
    object, as arguments are; that of a result is left out where it is of anything else."""
    mended_tools = []
    for tool in tools:
        name = tool.get("name") if isinstance(tool, dict) else None
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
            continue
        fields = {key: tool[key] for key, kind in _TOOL_KEYS.items() if isinstance(tool.get(key), kind)}
        annotations = {key: flag for key, flag in fields.pop("annotations", {}).items() if isinstance(flag, bool)}
        output = tool.get("outputSchema")
        is_object = isinstance(output, dict) and output.get("type") == "object"
        extras = {"outputSchema": _mend_schema(output)} if is_object else {}
        extras |= {"annotations": annotations} if annotations else {}
        mended_tools.append(
            {**fields, **extras, "name": name, "inputSchema": _mend_schema(fields.get("inputSchema", {}))}
        )
    return mended_tools


def _mend_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object: a property whose schema is none may be anything."""
    mended_schema = {**schema, "type": "object"}
    if isinstance(properties := schema.get("properties"), dict):
        mended_schema["properties"] = {
            name: below if isinstance(below, dict | bool) else {} for name, below in properties.items()
        }
    elif properties is not None:
        del mended_schema["properties"]
    required_names = schema.get("required")
    if isinstance(required_names, list):
        mended_schema["required"] = [name for name in required_names if isinstance(name, str)]
    elif required_names is not None:
        del mended_schema["required"]
    return mended_schema


def _is_valid(method: str, key: str, entry: Mapping[str, Any]) -> bool:
    """True if the SDK takes a list with this entry."""
    from mcp_types.methods import validate_server_result

    try:
        validate_server_result(method, _CHECKED_VERSION, {key: [entry]})
    except ValueError:
        return False
    return True
