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
            mended = mend_tools(entries) if key == "tools" else [each for each in entries if isinstance(each, dict)]
            result[key] = [each for each in mended if _is_valid(method, key, each)]
            if not isinstance(cursor := result.get("nextCursor"), str | None):
                result["nextCursor"] = str(cursor)


def mend_tools(tools: list[Any]) -> list[dict[str, Any]]:
    """Return the tools that can be called, of each what is as the protocol wants it. A schema of arguments is one of an
    object, as arguments are; that of a result is left out where it is of anything else."""
    mended = []
    for tool in tools:
        name = tool.get("name") if isinstance(tool, dict) else None
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
            continue
        kept = {key: tool[key] for key, kind in _TOOL_KEYS.items() if isinstance(tool.get(key), kind)}
        said = {key: each for key, each in kept.pop("annotations", {}).items() if isinstance(each, bool)}
        output = tool.get("outputSchema")
        is_object = isinstance(output, dict) and output.get("type") == "object"
        more = {"outputSchema": _mend_schema(output)} if is_object else {}
        more |= {"annotations": said} if said else {}
        mended.append({**kept, **more, "name": name, "inputSchema": _mend_schema(kept.get("inputSchema", {}))})
    return mended


def _mend_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object: a property whose schema is none may be anything."""
    mended = {**schema, "type": "object"}
    if isinstance(properties := schema.get("properties"), dict):
        mended["properties"] = {
            name: below if isinstance(below, dict | bool) else {} for name, below in properties.items()
        }
    elif properties is not None:
        del mended["properties"]
    required = schema.get("required")
    if isinstance(required, list):
        mended["required"] = [name for name in required if isinstance(name, str)]
    elif required is not None:
        del mended["required"]
    return mended


def _is_valid(method: str, key: str, entry: Mapping[str, Any]) -> bool:
    """True if the SDK takes a list with this entry."""
    from mcp_types.methods import validate_server_result

    try:
        validate_server_result(method, _CHECKED_VERSION, {key: [entry]})
    except ValueError:
        return False
    return True
