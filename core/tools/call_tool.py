"""Calls that stand for others: `call_tool`, and those that scroll through what was read before."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from core.errors import ToolInputInvalid
from core.protocol.messages import AssistantMessage, Message, ToolCall
from core.records import parse_json
from core.text.json_repairs import repair_arguments
from core.tools.arguments import convert_arguments
from core.tools.base import Reader, ReadTool, ToolOutcome
from core.tools.builtin.reading.read_file import ReadFile
from core.tools.foreign_calls import WINDOW, translate_call

_NAMES = frozenset({"call_tool", "CallTool"})
_READERS = frozenset({"read_file", "Read", "ReadFile", "view_file", "readTool"})
_SCROLLS = {"scroll_down": 1, "scroll_up": -1}
_JUMPS = frozenset({"goto", "goto_line"})
_FOR_ARGUMENTS = ("arguments", "args", "parameters", "input")


class CallTool(ReadTool, frozen=True, kw_only=True, rename={"tool": "name"}):
    name: ClassVar[str] = "call_tool"

    argument_names: ClassVar = {"tool_name": "name", "args": "arguments", "parameters": "arguments"}

    tool: Annotated[str, Meta(min_length=1, description="The tool's name.")]
    arguments: Annotated[dict[str, Any], Meta(description='Its arguments, like {"ids": ["p1"]}.')] = field(
        default_factory=dict
    )

    def subject(self) -> str:
        return self.tool

    async def run(self, capability: Reader) -> ToolOutcome:
        raise ToolInputInvalid(
            f"{self.tool!r} can't be called this way.",
            hint='Give the name of a tool and its arguments: {"name": "the_tool", "arguments": {…}}.',
        )


def unwrap_call(call: ToolCall) -> ToolCall:
    """Unwrap `call_tool`: return the inner call with the same id, or the call unchanged if it has none."""
    if call.name not in _NAMES:
        return call
    with suppress(ValueError, RecursionError):
        arguments = parse_json(call.arguments, strict=False)
        tool_name = (
            arguments.pop("name", None) or arguments.pop("tool_name", None) if isinstance(arguments, dict) else None
        )
        if isinstance(tool_name, str) and tool_name and tool_name not in _NAMES:
            return replace(call, name=tool_name, arguments=_extract_arguments(arguments))
    return call


def _extract_arguments(arguments: dict[str, Any]) -> str:
    """Return the arguments of the inner call: an object or its text under a known name, or all fields next to
    the name."""
    key = next((key for key in _FOR_ARGUMENTS if key in arguments), "")
    value = arguments[key] if key else arguments
    if value is None:
        return "{}"
    return repair_arguments(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def resolve_scroll(call: ToolCall, messages: Sequence[Message]) -> ToolCall:
    """Translate `scroll_down`, `scroll_up` or `goto` into a read of the window below or above the last one, or of the
    window at a line of the same file. Other calls are returned unchanged; without an earlier read, the result is a read
    without a file."""
    if call.name not in _SCROLLS and call.name not in _JUMPS:
        return call
    window, steps = _find_window(call, messages)
    if window is None:
        return replace(call, name=ReadFile.name, arguments="{}")
    start = max(window.start + steps * window.size, 1) if call.name in _SCROLLS else _read_line(call)
    arguments = {"target_file": window.target, "offset": start, "limit": window.size}
    return replace(call, name=ReadFile.name, arguments=json.dumps(arguments, ensure_ascii=False))


class _Window(Struct, frozen=True):
    target: str
    start: int
    size: int


def _find_window(call: ToolCall, messages: Sequence[Message]) -> tuple[_Window | None, int]:
    """Return the last window that was read or jumped to before a call, and the number of windows scrolled since,
    including the call itself."""
    tool_calls = [
        tool_call for message in messages if isinstance(message, AssistantMessage) for tool_call in message.tool_calls
    ]
    call_index = next(
        (index for index in range(len(tool_calls) - 1, -1, -1) if tool_calls[index].id == call.id), len(tool_calls)
    )
    steps, line = _SCROLLS.get(call.name, 0), 0
    for before in map(translate_call, map(unwrap_call, reversed(tool_calls[:call_index]))):
        if before.name in _SCROLLS:
            steps += 0 if line else _SCROLLS[before.name]
        elif before.name in _JUMPS:
            line = line or _read_line(before)
        elif before.name in _READERS and (window := _read_window(before)) is not None:
            return replace(window, start=line or window.start), steps
    return None, steps


def _read_line(call: ToolCall) -> int:
    """Return the line that a jump names, 1 if it names none."""
    with suppress(ValueError, RecursionError):
        arguments = parse_json(call.arguments)
        if isinstance(arguments, dict):
            return max(1, next((int(value) for value in arguments.values()), 1))
    return 1


def _read_window(call: ToolCall) -> _Window | None:
    """Return the window that a call reads; None: the call is invalid."""
    try:
        read = convert_arguments(ReadFile, call.arguments)
    except ToolInputInvalid:
        return None
    if not isinstance(read, ReadFile):
        return None
    return _Window(read.target_file, max(read.offset, 1), read.limit or WINDOW)
