"""Messages of servers that violate the protocol, repaired on their way to the SDK.

The SDK drops an answer that it can't parse, so that the caller waits in vain, and refuses a whole list for one invalid
entry. Here every answer ends its call, as an error if it can't be repaired; an invalid entry is repaired or left out
alone; and an answer that names no call of ours ends the only one that waits, unless a better answer follows.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from math import inf
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from core.clock import monotonic
from core.patterns import compile_lazily
from core.records import parse_json
from core.text.well_formed import map_texts

if TYPE_CHECKING:
    from mcp_types import JSONRPCError, JSONRPCMessage

BOM: Final = "\ufeff"
NO_JSON: Final = -32700  # JSON-RPC's code of a parse error
MAX_QUOTED: Final = 300  # characters of an invalid error that are quoted
_ANSWER_KEYS: Final = {"id", "result", "error"}
_BROKEN_ANSWER: Final = compile_lazily(
    r'\{(?=.*"jsonrpc")(?!.*"method").*?"id"\s*:\s*(?:(\d{1,18})|"([^"\\]{1,200})")', re.DOTALL
)
_SEARCHED: Final = 1_000  # characters of an unparsable answer that are searched for its id
MAX_NAME: Final = 128  # characters of a tool's name
_TOOL_KEYS: Final = {"title": str, "description": str, "inputSchema": dict, "annotations": dict, "_meta": dict}
_METHODS: Final = {
    "tools": "tools/list",
    "resources": "resources/list",
    "resourceTemplates": "resources/templates/list",
    "prompts": "prompts/list",
}
# An entry that this version's types refuse is refused by the other versions, too.
_CHECKED_VERSION: Final = "2025-11-25"
LISTENING: Final = "subscriptions/listen"  # this request lasts as long as the connection
CANCELLED: Final = "notifications/cancelled"
UNMATCHED_SECONDS: Final = 10.0  # how long a call waits on after an answer without a matching id


@asynccontextmanager
async def repair_streams(
    streams: AbstractAsyncContextManager[tuple[Any, Any]], wrap: Callable[[Any], Any]
) -> AsyncIterator[tuple[Any, Any]]:
    """Yield the streams, with the server's messages repaired. `wrap` turns a message into an item of the streams."""
    async with streams as (reading, writing):
        calls = _PendingCalls()
        yield _RepairedReader(reading, calls, wrap), _TrackedWriter(writing, calls)


class _PendingCalls(Struct, eq=False):
    """Our requests: ids of all that were `sent`, and of those `waiting` for an answer. `unmatched`: an answer without a
    matching id for the only waiting call, and the time when that call gets it."""

    sent: set[str] = field(default_factory=set)
    waiting: dict[str, int | str] = field(default_factory=dict)
    unmatched: tuple[Any, float] | None = None

    def record_sent(self, message: Any) -> None:
        method, number = getattr(message, "method", ""), getattr(message, "id", None)
        if method == CANCELLED:
            self._end_wait((message.params or {}).get("requestId"))
        elif method and number is not None:
            self.sent.add(str(number))
            self.waiting |= {str(number): number} if method != LISTENING else {}

    def match_answer(self, message: Any) -> bool:
        """Record an answer. False: it matches no request of ours; `take_unmatched` may return it later."""
        if hasattr(message, "method"):
            return True
        if str(message.id) in self.sent:
            self._end_wait(message.id)
            return True
        if len(self.waiting) == 1 and self.unmatched is None:
            (owner,) = self.waiting.values()
            problem = f"it answers the call {message.id}, which was never made"
            ending = build_error(owner, problem) if message.id is not None else message.model_copy(update={"id": owner})
            self.unmatched = ending, monotonic() + UNMATCHED_SECONDS
        return False

    def _end_wait(self, number: object) -> None:
        self.waiting.pop(str(number), None)
        if self.unmatched is not None and str(self.unmatched[0].id) == str(number):
            self.unmatched = None

    def compute_timeout(self) -> float:
        """Return the seconds until the unmatched answer is due."""
        return inf if self.unmatched is None else max(self.unmatched[1] - monotonic(), 0.0)

    def take_unmatched(self) -> Any:
        """Return the unmatched answer, addressed to the waiting call, or None."""
        ending = self.unmatched[0] if self.unmatched is not None else None
        if ending is not None:
            self._end_wait(ending.id)
        return ending


class _WrappedStream:
    """A stream of the SDK with some methods replaced."""

    def __init__(self, stream: Any, calls: _PendingCalls) -> None:
        self._stream, self._calls = stream, calls

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aenter__(self) -> Any:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *problem: Any) -> Any:
        return await self._stream.__aexit__(*problem)


class _TrackedWriter(_WrappedStream):
    async def send(self, item: Any) -> None:
        self._calls.record_sent(item.message)
        await self._stream.send(item)


class _RepairedReader(_WrappedStream):
    def __init__(self, stream: Any, calls: _PendingCalls, wrap: Callable[[Any], Any]) -> None:
        super().__init__(stream, calls)
        self._wrap = wrap
        self._repaired = deque[Any]()

    def __aiter__(self) -> _RepairedReader:
        return self

    async def __anext__(self) -> Any:
        import anyio

        while True:
            if not self._repaired:
                with anyio.move_on_after(self._calls.compute_timeout()) as time_limit:
                    item = await self._stream.__anext__()
                    self._repaired.extend(
                        map(self._wrap, parse_rejected(item)) if isinstance(item, Exception) else (item,)
                    )
                if time_limit.cancelled_caught and (ending := self._calls.take_unmatched()) is not None:
                    return self._wrap(ending)
            while self._repaired:
                item = self._repaired.popleft()
                if self._calls.match_answer(item.message):
                    return _repair_result(item)


def _repair_result(item: Any) -> Any:
    result = getattr(item.message, "result", None)
    if isinstance(result, dict):
        repair_lists(result)
    return item


def parse_messages(line: str) -> list[JSONRPCMessage]:
    """Return the messages of a line: one, those of a batch, or none. An unparsable answer becomes an error."""
    from mcp_types import jsonrpc_message_adapter

    text = line.strip().removeprefix(BOM)
    try:
        return [jsonrpc_message_adapter.validate_json(text.encode("utf-8", "replace"), by_name=False)]
    except ValueError:
        pass
    try:
        payload = parse_json(text)
    except ValueError as problem:
        match = _BROKEN_ANSWER.match(text[:_SEARCHED])
        number = match and (int(match[1]) if match[1] else match[2])
        return [build_error(number, f"it is not complete JSON ({problem})")] if number is not None else []
    return _repair_all(payload)


def parse_rejected(problem: Exception) -> list[JSONRPCMessage]:
    """Return the messages in the input that the SDK rejected, given its exception."""
    for fault in getattr(problem, "errors", list)():
        payload = fault.get("input")
        if isinstance(payload, str | bytes) and fault.get("type") == "json_invalid":
            return parse_messages(payload if isinstance(payload, str) else payload.decode("utf-8", "replace"))
        if messages := _repair_all(payload):
            return messages
    return []


def _repair_all(payload: Any) -> list[JSONRPCMessage]:
    mended_messages = map(repair_message, payload if isinstance(payload, list) else [payload])
    return [message for message in mended_messages if message is not None]


def repair_message(raw_message: Any) -> JSONRPCMessage | None:
    """Return a valid message; None = it is no message. The id of an error may be None: it does not name its call."""
    from mcp_types import jsonrpc_message_adapter

    if not isinstance(raw_message, dict):
        return None
    fields = {**map_texts(raw_message), "jsonrpc": "2.0"}
    if "method" not in raw_message:
        is_answer = _ANSWER_KEYS & raw_message.keys() and (
            "jsonrpc" in raw_message or raw_message.keys() <= _ANSWER_KEYS
        )
        return _repair_answer(fields) if is_answer else None
    if not isinstance(fields.get("params", {}), dict):
        del fields["params"]
    try:
        return jsonrpc_message_adapter.validate_python(fields, by_name=False)
    except ValueError:
        return None


def _repair_answer(fields: dict[str, Any]) -> JSONRPCMessage:
    from mcp_types import ErrorData, JSONRPCError, JSONRPCResponse

    number, result, error = _read_number(fields.get("id")), fields.get("result"), fields.get("error")
    if error is not None:
        error_text = error.get("message") if isinstance(error, dict) else error
        code = error.get("code") if isinstance(error, dict) else None
        data = error.get("data") if isinstance(error, dict) else None
        message = (
            error_text if isinstance(error_text, str) and error_text else f"its error is only {str(error)[:MAX_QUOTED]}"
        )
        number_of_error = code if isinstance(code, int) and not isinstance(code, bool) else 0
        fault = ErrorData(code=number_of_error, message=message, data=data)
        return JSONRPCError(jsonrpc="2.0", id=number, error=fault)
    if not isinstance(result, dict):
        return build_error(number, f"its result is not an object but {str(result)[:MAX_QUOTED]!r}")
    if number is None:
        return build_error(number, f"it has no number identifying the call ({str(fields.get('id'))[:MAX_QUOTED]})")
    return JSONRPCResponse(jsonrpc="2.0", id=number, result=result)


def build_error(number: int | str | None, problem: str) -> JSONRPCError:
    """Return an error response for an answer that can't be read."""
    from mcp_types import ErrorData, JSONRPCError

    text = f"the server's answer can't be read: {problem}"
    return JSONRPCError(jsonrpc="2.0", id=number, error=ErrorData(code=NO_JSON, message=text))


def _read_number(raw_number: object) -> int | str | None:
    if isinstance(raw_number, float) and raw_number.is_integer():
        return int(raw_number)
    return raw_number if isinstance(raw_number, int | str) and not isinstance(raw_number, bool) else None


def repair_lists(result: dict[str, Any]) -> None:
    """Repair the lists in the result of a request, in place, entry by entry."""
    for key, method in _METHODS.items():
        if isinstance(entries := result.get(key), list):
            mended_entries = (
                repair_tools(entries) if key == "tools" else [entry for entry in entries if isinstance(entry, dict)]
            )
            result[key] = [entry for entry in mended_entries if _is_valid(method, key, entry)]
            if not isinstance(cursor := result.get("nextCursor"), str | None):
                result["nextCursor"] = str(cursor)


def repair_tools(tools: list[Any]) -> list[dict[str, Any]]:
    """Return the valid tools, each without invalid fields. The schema of arguments becomes one of an object; an output
    schema of another type is dropped."""
    mended_tools = []
    for tool in tools:
        name = tool.get("name") if isinstance(tool, dict) else None
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
            continue
        fields = {key: tool[key] for key, kind in _TOOL_KEYS.items() if isinstance(tool.get(key), kind)}
        annotations = {key: flag for key, flag in fields.pop("annotations", {}).items() if isinstance(flag, bool)}
        output = tool.get("outputSchema")
        is_object = isinstance(output, dict) and output.get("type") == "object"
        extras = {"outputSchema": _repair_schema(output)} if is_object else {}
        extras |= {"annotations": annotations} if annotations else {}
        mended_tools.append(
            {**fields, **extras, "name": name, "inputSchema": _repair_schema(fields.get("inputSchema", {}))}
        )
    return mended_tools


def _repair_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a valid schema of an object; a property with an invalid schema accepts anything."""
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
    """True if the SDK accepts a list with this entry."""
    from mcp_types.methods import validate_server_result

    try:
        validate_server_result(method, _CHECKED_VERSION, {key: [entry]})
    except ValueError:
        return False
    return True
