"""Tool calls as servers stream them, made regular: one number, one id and one name per call, arguments in pieces.

Servers that call themselves compatible leave out `index` or `id`, give every call index 0, repeat the name in each
chunk, send arguments as an object, or number the ids of every answer from zero. All of these are understood here.
Arguments that are not valid JSON pass through as they are: the gate answers them.
"""

from __future__ import annotations

import json
from collections.abc import Set as AbstractSet
from typing import Any, Final

from msgspec import Struct, field

from core.ids import new_id
from core.protocol.messages import AssistantMessage, Message
from core.providers.base import ToolCallDelta
from core.providers.wire.parsed_fields import get_text
from core.providers.wire.wire_text import clean_tool_name, encode_arguments, is_call_id
from core.records import parse_json

_OWN_FIELDS: Final = frozenset({"index", "id", "type", "function", "name", "arguments"})


def collect_call_ids(messages: tuple[Message, ...]) -> set[str]:
    """The ids of all calls in a history: a new call may not have one of them."""
    return {call.id for each in messages if isinstance(each, AssistantMessage) for call in each.tool_calls}


class _Call(Struct, eq=False):
    index: int
    server_index: int | None
    server_id: str
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    unknown: dict[str, Any] = field(default_factory=dict)  # fields of the call
    unknown_of_function: dict[str, Any] = field(default_factory=dict)

    def is_complete(self) -> bool:
        try:
            parse_json("".join(self.arguments))
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
        functions = [
            {"name": clean_tool_name(call.name), "arguments": encode_arguments("".join(call.arguments))}
            for call in self._calls
        ]
        return [
            {"id": call.id, "type": "function", "function": function | call.unknown_of_function, **call.unknown}
            for call, function in zip(self._calls, functions, strict=True)
        ]

    def feed(self, part: dict[str, Any]) -> ToolCallDelta | None:
        """One element of a chunk's `tool_calls`; None if it says nothing new."""
        function = part.get("function")
        function = function if isinstance(function, dict) else part
        name, server_id = get_text(function, "name"), get_text(part, "id")
        index = part.get("index")
        index = index if isinstance(index, int) and not isinstance(index, bool) else None
        arguments = function.get("arguments")
        if not isinstance(arguments, str):
            arguments = "" if arguments is None else json.dumps(arguments, ensure_ascii=False)
        call, fresh_id = self._find_continued(index, server_id, name), ""
        if call is None:
            fresh_id = self.make_unique(server_id)
            call = _Call(len(self._calls), index, server_id, fresh_id)
            self._calls.append(call)
        call.unknown |= _select_unknown(part)
        call.unknown_of_function |= {} if function is part else _select_unknown(function)
        call.server_id = call.server_id or server_id
        news = name if not call.name else ""
        call.name = call.name or name
        call.arguments.append(arguments)
        found = ToolCallDelta(call.index, id=fresh_id, name=news, arguments=arguments)
        return found if fresh_id or news or arguments else None

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


def _select_unknown(table: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key not in _OWN_FIELDS and value is not None}
