"""Tool calls as servers stream them, made regular: one number, one id and one name per call, arguments in pieces.

Servers that call themselves compatible leave out `index` or `id`, give every call index 0, repeat the name in each
chunk, send arguments as an object, or number the ids of every answer from zero. All of these are understood here.
Arguments that are not valid JSON pass through as they are: the gate answers them.
"""

from __future__ import annotations

import json
from collections.abc import Set as AbstractSet
from typing import Any, Final

from core.ids import new_id
from core.protocol.messages import AssistantMessage, Message
from core.providers.base import ToolCallDelta
from core.providers.wire.wire_text import clean_tool_name, encode_arguments, is_call_id

_OWN_FIELDS: Final = frozenset({"index", "id", "type", "function", "name", "arguments"})


def collect_call_ids(messages: tuple[Message, ...]) -> set[str]:
    """The ids of all calls in a history: a new call may not have one of them."""
    return {call.id for each in messages if isinstance(each, AssistantMessage) for call in each.tool_calls}


class _Call:
    __slots__ = ("arguments", "id", "index", "name", "server_id", "server_index", "unknown")

    def __init__(self, index: int, server_index: int | None, server_id: str) -> None:
        self.index, self.server_index, self.server_id = index, server_index, server_id
        self.id = self.name = ""
        self.arguments: list[str] = []
        self.unknown: tuple[dict[str, Any], dict[str, Any]] = ({}, {})  # fields of the call, and of its function

    def is_complete(self) -> bool:
        try:
            json.loads("".join(self.arguments))
        except ValueError:
            return False
        return True


class CallNormaliser:
    """The calls of one answer. `taken` holds the ids that are in use already."""

    def __init__(self, taken: AbstractSet[str]) -> None:
        self._taken = set(taken)
        self._calls: list[_Call] = []

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def is_complete(self) -> bool:
        """True if the arguments of every call are whole."""
        return all(call.is_complete() or not "".join(call.arguments).strip() for call in self._calls)

    def list_calls(self) -> list[dict[str, Any]]:
        """The calls so far as an answer's message holds them, with every field that was not understood."""
        return [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": clean_tool_name(call.name),
                    "arguments": encode_arguments("".join(call.arguments)),
                    **call.unknown[1],
                },
                **call.unknown[0],
            }
            for call in self._calls
        ]

    def feed(self, part: dict[str, Any]) -> ToolCallDelta | None:
        """One element of a chunk's `tool_calls`; None if it says nothing new."""
        function = part.get("function")
        function = function if isinstance(function, dict) else part
        name, server_id = _to_text(function.get("name")), _to_text(part.get("id"))
        index = part.get("index")
        index = index if isinstance(index, int) and not isinstance(index, bool) else None
        arguments = _to_arguments(function.get("arguments"))
        call = self._find_continued(index, server_id, name)
        if call is None:
            call = _Call(len(self._calls), index, server_id)
            _note_unknown(call, part, function)
            return self._is_opened(call, name, arguments)
        _note_unknown(call, part, function)
        call.server_id = call.server_id or server_id
        news = name if not call.name else ""
        call.name = call.name or name
        call.arguments.append(arguments)
        return ToolCallDelta(call.index, name=news, arguments=arguments) if news or arguments else None

    def _is_opened(self, call: _Call, name: str, arguments: str) -> ToolCallDelta:
        call.name = name
        call.arguments.append(arguments)
        call.id = self.make_unique(call.server_id)
        self._calls.append(call)
        return ToolCallDelta(call.index, id=call.id, name=name, arguments=arguments)

    def make_unique(self, server_id: str) -> str:
        """The server's id if it is a usable one that nobody has, else a new one."""
        chosen = server_id if is_call_id(server_id) and server_id not in self._taken else new_id("call")
        self._taken.add(chosen)
        return chosen

    def _find_continued(self, index: int | None, server_id: str, name: str) -> _Call | None:
        """The call that this part goes on with, None if it opens a new one."""
        call = self._find_at_index(index, server_id, name)
        if call is None or (server_id and call.server_id and call.server_id != server_id):
            return None
        if name and call.name and not (server_id and call.server_id == server_id):
            # The name again, and no id to tell by: the same call unless that one is whole already.
            return None if name != call.name or call.is_complete() else call
        return call

    def _find_at_index(self, index: int | None, server_id: str, name: str) -> _Call | None:
        if index is not None:
            return next((each for each in reversed(self._calls) if each.server_index == index), None)
        if server_id:
            return next((each for each in self._calls if each.server_id == server_id), None)
        return self._calls[-1] if self._calls else None


def _note_unknown(call: _Call, part: dict[str, Any], function: dict[str, Any]) -> None:
    for known, place in zip(call.unknown, (part, {} if function is part else function), strict=True):
        known.update({key: value for key, value in place.items() if key not in _OWN_FIELDS and value is not None})


def _to_text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _to_arguments(value: object) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)
