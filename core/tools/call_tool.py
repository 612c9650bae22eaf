"""call_tool: the way to every tool that is not in the list of a session, which never changes.

What it calls is taken out of it before anything looks at the call (`unwrap_call`): access, approval, document and log
are those of the tool that is meant. So is what `scroll_down` stands for, which only says that reading goes on.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, ClassVar

from msgspec import Meta
from msgspec.structs import replace

from core.errors import ToolInputInvalid
from core.protocol.messages import AssistantMessage, Message, ToolCall
from core.tools.arguments import convert_arguments
from core.tools.base import Reader, ReadTool, ToolOutcome
from core.tools.builtin.reading.read_file import ReadFile

_NAMES = frozenset({"call_tool", "CallTool"})
_READERS = frozenset({"read_file", "Read", "ReadFile", "view_file", "readTool", "open_file"})
_SCROLLS = {"scroll_down": 1, "scroll_up": -1}
SCROLLED = 100  # lines of a window that nobody named the size of
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


def resolve_scroll(call: ToolCall, messages: Sequence[Message]) -> ToolCall:
    """Return the reading that `scroll_down` or `scroll_up` means: the window below or above the last one that was read.
    Any other call, or one where nothing was read before, is returned as given."""
    if call.name not in _SCROLLS:
        return call
    steps = _SCROLLS[call.name]
    for message in reversed(messages):
        for asked in reversed(message.tool_calls) if isinstance(message, AssistantMessage) else ():
            before = unwrap_call(asked)
            if before.id == call.id:  # what stands behind it in the same answer comes later
                steps = _SCROLLS[call.name]
            elif before.name in _SCROLLS:
                steps += _SCROLLS[before.name]
            elif before.name in _READERS and (given := _read_window(before)) is not None:
                target, start, size = given
                window = {"target_file": target, "offset": max(start + steps * size, 1), "limit": size}
                return replace(call, name="read_file", arguments=json.dumps(window, ensure_ascii=False))
    return call


def _read_window(call: ToolCall) -> tuple[str, int, int] | None:
    """Return file, first line and number of lines of a call that reads; None: it can't be understood."""
    try:
        read = convert_arguments(ReadFile, call.arguments)
    except ToolInputInvalid:
        return None
    if not isinstance(read, ReadFile):
        return None
    return read.target_file, max(read.offset, 1), read.limit or SCROLLED
