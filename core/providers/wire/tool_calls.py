"""Normaliser of streamed tool calls: one number, one id and one name per call, arguments in pieces.

Compatible servers omit `index` or `id`, give every call index 0, give every piece a new id, send the name in pieces or
repeat it in every chunk, send arguments as an object or repeat all of them at the end, or number the ids of every
answer from zero. This module alone decides which call a piece belongs to. An ambiguous piece stays in one call, whose
arguments are then invalid JSON, and the gate rejects it. Wrappings around whole arguments are removed elsewhere
(`core/text/json_repairs.py`).
"""

from __future__ import annotations

import json
from collections.abc import Collection
from collections.abc import Set as AbstractSet
from typing import Any, Final

from msgspec import Struct, field

from core.ids import new_id
from core.protocol.messages import AssistantMessage, Message
from core.providers.base import ToolCallDelta
from core.providers.wire.wire_values import clean_tool_name, encode_arguments, get_text, is_call_id
from core.records import parse_json
from core.text.json_repairs import is_object, may_be_complete, may_continue, repair_arguments

_OWN_FIELDS: Final = frozenset({"index", "id", "type", "function", "name", "arguments"})


def collect_call_ids(messages: tuple[Message, ...]) -> set[str]:
    """Return the ids of all calls in a history, which a new call may not reuse."""
    return {call.id for message in messages if isinstance(message, AssistantMessage) for call in message.tool_calls}


class _Piece(Struct, frozen=True):
    """An element of a chunk's `tool_calls`; "" and None where the server omitted a field."""

    index: int | None
    id: str
    name: str
    arguments: str


class _Call(Struct, eq=False):
    """A streamed call. `ids`, `indexes`: those of its pieces. `twin`: the earlier call that it may repeat; it is
    emitted once that is decided. `passed`: the number of emitted pieces."""

    id: str
    indexes: set[int] = field(default_factory=set)
    ids: set[str] = field(default_factory=set)
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    unknown: dict[str, Any] = field(default_factory=dict)  # Unknown fields of the call.
    unknown_of_function: dict[str, Any] = field(default_factory=dict)
    twin: _Call | None = None
    number: int = -1
    passed: int = 0

    @property
    def text(self) -> str:
        return "".join(self.arguments)

    def is_complete(self) -> bool:
        text = self.text
        return may_be_complete(text) and is_object(repair_arguments(text))

    def has_arguments(self) -> bool:
        return any(piece.strip() for piece in self.arguments)

    def is_repetition(self) -> bool:
        """Return True if the call only repeats its twin."""
        return self.twin is not None and (not self.has_arguments() or self.twin.means_same(self.text))

    def means_same(self, arguments: str) -> bool:
        own_arguments, other = repair_arguments(self.text), repair_arguments(arguments)
        return own_arguments == other or (
            is_object(own_arguments) and is_object(other) and parse_json(own_arguments) == parse_json(other)
        )


class CallNormaliser:
    """The calls of one answer. `taken_ids`: the ids in use; `tool_names`: the names of the tools, which distinguish a
    name in pieces from two calls."""

    def __init__(self, taken_ids: AbstractSet[str], tool_names: Collection[str] = ()) -> None:
        self._taken = set(taken_ids)
        self._offered = frozenset(tool_names)
        self._calls: list[_Call] = []
        self._passed = 0
        self._ids_vary = False  # Pieces of one call have had several ids.

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def is_complete(self) -> bool:
        """True if the arguments of every call are complete."""
        return all(call.is_complete() or not call.has_arguments() for call in self._calls)

    def list_calls(self) -> list[dict[str, Any]]:
        """Return the calls so far in the form of an answer's message, including unknown fields."""
        functions = [
            {"name": clean_tool_name(call.name), "arguments": encode_arguments(call.text)} for call in self._calls
        ]
        return [
            {"id": call.id, "type": "function", "function": function | call.unknown_of_function, **call.unknown}
            for call, function in zip(self._calls, functions, strict=True)
        ]

    def feed(self, part: dict[str, Any]) -> list[ToolCallDelta]:
        """Read an element of a chunk's `tool_calls`, and return the deltas that are certain. A call is emitted with its
        first arguments, when its name is complete."""
        function = part.get("function")
        function = function if isinstance(function, dict) else part
        piece = _read_piece(part, function)
        call = self._find_continued(piece) or self._open_call(piece)
        call.unknown |= _select_unknown(part)
        call.unknown_of_function |= {} if function is part else _select_unknown(function)
        call.indexes |= {piece.index} if piece.index is not None else set()
        call.ids |= {piece.id} if piece.id else set()
        if piece.name and not call.has_arguments():
            call.name = self._join_name(call.name, piece.name)
        call.arguments.append(piece.arguments)
        return self._emit_ready()

    def finish(self) -> list[ToolCallDelta]:
        """Return the withheld deltas at the end of the answer; repetitions of another call are dropped."""
        self._calls = [call for call in self._calls if not call.is_repetition()]
        return self._emit_ready(last=True)

    def make_unique(self, server_id: str) -> str:
        """Return the server's id if it is valid and unused, else a new one."""
        call_id = server_id if is_call_id(server_id) and server_id not in self._taken else new_id("call")
        self._taken.add(call_id)
        return call_id

    def _open_call(self, piece: _Piece) -> _Call:
        same_id = (candidate for candidate in reversed(self._calls) if piece.id and piece.id in candidate.ids)
        before = self._find_candidate(piece) or next(same_id, None)
        is_doubtful = before is not None and before.name == piece.name and (not piece.id or piece.id in before.ids)
        call = _Call(self.make_unique(piece.id), twin=before if is_doubtful else None)
        self._calls.append(call)
        return call

    def _emit_ready(self, *, last: bool = False) -> list[ToolCallDelta]:
        """Return the new deltas in the order of the calls: a withheld call also withholds those after it."""
        deltas: list[ToolCallDelta] = []
        for index, call in enumerate(self._calls):
            if call.number < 0:
                is_followed = index + 1 < len(self._calls) or last
                if (call.twin and not last) or not (call.has_arguments() or is_followed):
                    break
                call.number, self._passed = self._passed, self._passed + 1
                arguments = call.text
                deltas.append(ToolCallDelta(call.number, id=call.id, name=call.name, arguments=arguments))
            elif arguments := "".join(call.arguments[call.passed :]):
                deltas.append(ToolCallDelta(call.number, arguments=arguments))
            call.passed = len(call.arguments)
        return deltas

    def _find_continued(self, piece: _Piece) -> _Call | None:
        """Return the call that a piece continues, None if it opens a new one."""
        call = self._find_candidate(piece)
        if call is None:
            return None
        has_other_id = bool(piece.id and call.ids) and piece.id not in call.ids
        if not piece.name or not call.name:
            is_same = not piece.name or not has_other_id  # A call has a name, so a nameless piece is not a new call.
        elif call.has_arguments():
            is_same = piece.name == call.name and self._continues_arguments(call, piece, has_other_id=has_other_id)
        else:
            is_same = self._is_name_continued(call.name, piece.name, has_other_id=has_other_id)
        self._ids_vary = self._ids_vary or (is_same and has_other_id and bool(piece.arguments))
        return call if is_same else None

    def _continues_arguments(self, call: _Call, piece: _Piece, *, has_other_id: bool) -> bool:
        """Return True if a piece that repeats the name of a call with arguments brings more of them, or
        repeats them."""
        if not call.is_complete():
            return (
                not has_other_id or may_continue(call.text + piece.arguments) or is_object(call.text + piece.arguments)
            )
        if has_other_id and not self._ids_vary:
            return False
        is_empty = not parse_json(repair_arguments(call.text)) and bool(piece.id)
        return bool(piece.arguments.strip()) and (call.means_same(piece.arguments) or is_empty) and bool(piece.id)

    def _is_name_continued(self, name: str, addition: str, *, has_other_id: bool) -> bool:
        """Return True if a name belongs to a call that has a name and no arguments yet."""
        if has_other_id:
            return name + addition in self._offered and name not in self._offered
        return name == addition or not ({name, addition} <= self._offered and name + addition not in self._offered)

    def _join_name(self, name: str, addition: str) -> str:
        """Return the name extended by another piece, or replaced by a repetition of all of it."""
        is_whole = (
            addition.startswith(name)
            and (addition == name or addition in self._offered)
            and name + addition not in self._offered
        )
        return addition if is_whole else name + addition

    def _find_candidate(self, piece: _Piece) -> _Call | None:
        """Return the latest call that matches the piece's index and id, as far as it has them."""
        calls, last = self._calls[::-1], self._calls[-1] if self._calls else None
        by_id = (call for call in calls if piece.id in call.ids) if piece.id else iter(())
        if piece.index is not None:
            index_matches = [call for call in calls if piece.index in call.indexes]
            exact = next((call for call in by_id if call in index_matches), None)
            if exact or index_matches:
                return exact or index_matches[0]
            return last if _continues_call(last, piece) else None
        if piece.id:
            is_nameless = bool(piece.arguments) and not piece.name
            return next(by_id, last if is_nameless else None)
        return last


def _continues_call(call: _Call | None, piece: _Piece) -> bool:
    """Return True if a piece under a new index completes a call: some servers number pieces instead of calls."""
    if call is None or piece.name or not piece.arguments.strip() or call.is_complete():
        return False
    full_text = call.text + piece.arguments
    return may_continue(full_text) or is_object(full_text)


def _read_piece(part: dict[str, Any], function: dict[str, Any]) -> _Piece:
    index, arguments = part.get("index"), function.get("arguments")
    if not isinstance(arguments, str):
        arguments = "" if arguments is None else json.dumps(arguments, ensure_ascii=False)
    is_number = isinstance(index, int) and not isinstance(index, bool)
    return _Piece(index if is_number else None, get_text(part, "id"), get_text(function, "name"), arguments)


def _select_unknown(table: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key not in _OWN_FIELDS and value is not None}
