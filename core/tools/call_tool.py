"""call_tool: the way to every tool that is not in the list of a session, which never changes.

What it calls is taken out of it before anything looks at the call (`unwrapped`): access, approval, document and log
are those of the tool that is meant.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Annotated, Any, ClassVar

from msgspec import Meta
from msgspec.structs import replace

from core.errors import ToolInputInvalid
from core.protocol.messages import ToolCall
from core.tools.base import Reader, ReadTool, ToolOutcome

_NAMES = frozenset({"call_tool", "CallTool"})
_FOR_ARGUMENTS = ("arguments", "args", "parameters", "input")


class CallTool(ReadTool, frozen=True, kw_only=True, rename={"tool": "name"}):
    name: ClassVar[str] = "call_tool"

    argument_names: ClassVar = {"tool_name": "name", "args": "arguments", "parameters": "arguments"}

    tool: Annotated[str, Meta(min_length=1, description="The tool's name.")]
    arguments: Annotated[str, Meta(description='Its arguments: a JSON object as text, such as {"ids": ["p1"]}.')] = ""

    def subject(self) -> str:
        return self.tool

    async def run(self, capability: Reader) -> ToolOutcome:
        raise ToolInputInvalid(
            f"{self.tool!r} can't be called in this way.",
            hint='Give the name of a tool and its arguments: {"name": "the_tool", "arguments": "{…}"}.',
        )


def unwrap_call(call: ToolCall) -> ToolCall:
    """The call that is meant, under the same id; as given where nothing can be taken out."""
    if call.name not in _NAMES:
        return call
    with suppress(ValueError, RecursionError):
        given = json.loads(call.arguments, strict=False)
        wanted = given.pop("name", None) or given.pop("tool_name", None) if isinstance(given, dict) else None
        if isinstance(wanted, str) and wanted and wanted not in _NAMES:
            return replace(call, name=wanted, arguments=_extract_arguments(given))
    return call


def _extract_arguments(given: dict[str, Any]) -> str:
    """The arguments of the inner call: an object or its text under a known name, or all that stands beside the name."""
    key = next((key for key in _FOR_ARGUMENTS if key in given), "")
    value = given[key] if key else given
    if value is None:
        return "{}"
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    try:
        json.loads(value)
    except (ValueError, RecursionError):
        with suppress(ValueError, RecursionError):  # line ends within a string: escaped once too little
            return json.dumps(json.loads(value, strict=False), ensure_ascii=False)
    return value
