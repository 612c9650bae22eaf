"""Messages of servers that the SDK would not take: mended where it is plain what was meant, and else the error of the
call that they answer.

The SDK drops an answer that it can't read, and whoever waits for it waits on. So an answer ends its call whatever it is
made of; a line that answers nothing is none of our messages.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from core.records import parse_json
from core.text.well_formed import map_texts

if TYPE_CHECKING:
    from mcp_types import JSONRPCError, JSONRPCMessage

BOM: Final = "\ufeff"
NO_JSON: Final = -32700  # JSON-RPC's code of what can't be read
MOST_SAID: Final = 300  # characters of an odd error that are told
_ANSWER_KEYS: Final = {"id", "result", "error"}
_BROKEN_ANSWER: Final = re.compile(
    r'\{(?=.*"jsonrpc")(?!.*"method").*?"id"\s*:\s*(?:(\d{1,18})|"([^"\\]{1,200})")', re.DOTALL
)
_SEARCHED: Final = 1_000  # characters of a broken answer in which its number stands


def read_messages(line: str) -> list[JSONRPCMessage]:
    """Return the messages of a line: one, those of a batch, or none. An answer that can't be read is an error."""
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
        return [build_error(number, f"it is no whole JSON ({problem})")] if number is not None else []
    return _mend_all(payload)


def read_refused(problem: Exception) -> list[JSONRPCMessage]:
    """Return the messages in what the SDK refused, by the fault that it puts in their place."""
    for fault in getattr(problem, "errors", list)():
        payload = fault.get("input")
        if isinstance(payload, str | bytes) and fault.get("type") == "json_invalid":
            return read_messages(payload if isinstance(payload, str) else payload.decode("utf-8", "replace"))
        if messages := _mend_all(payload):
            return messages
    return []


def _mend_all(payload: Any) -> list[JSONRPCMessage]:
    mended_messages = map(mend_message, payload if isinstance(payload, list) else [payload])
    return [message for message in mended_messages if message is not None]


def mend_message(raw_message: Any) -> JSONRPCMessage | None:
    """Return a message as the protocol wants it; None = it is no message. The number of an error may be None: it does
    not say which call it answers."""
    from mcp_types import jsonrpc_message_adapter

    if not isinstance(raw_message, dict):
        return None
    fields = {**map_texts(raw_message), "jsonrpc": "2.0"}
    if "method" not in raw_message:
        is_answer = _ANSWER_KEYS & raw_message.keys() and (
            "jsonrpc" in raw_message or raw_message.keys() <= _ANSWER_KEYS
        )
        return _mend_answer(fields) if is_answer else None
    if not isinstance(fields.get("params", {}), dict):
        del fields["params"]
    try:
        return jsonrpc_message_adapter.validate_python(fields, by_name=False)
    except ValueError:
        return None


def _mend_answer(fields: dict[str, Any]) -> JSONRPCMessage:
    from mcp_types import ErrorData, JSONRPCError, JSONRPCResponse

    number, result, error = _read_number(fields.get("id")), fields.get("result"), fields.get("error")
    if error is not None:
        error_text = error.get("message") if isinstance(error, dict) else error
        code = error.get("code") if isinstance(error, dict) else None
        data = error.get("data") if isinstance(error, dict) else None
        message = (
            error_text
            if isinstance(error_text, str) and error_text
            else f"its error says no more than {str(error)[:MOST_SAID]}"
        )
        number_of_error = code if isinstance(code, int) and not isinstance(code, bool) else 0
        fault = ErrorData(code=number_of_error, message=message, data=data)
        return JSONRPCError(jsonrpc="2.0", id=number, error=fault)
    if not isinstance(result, dict):
        return build_error(number, f"its result is no object but {str(result)[:MOST_SAID]!r}")
    if number is None:
        return build_error(number, f"it has no number that names the call ({str(fields.get('id'))[:MOST_SAID]})")
    return JSONRPCResponse(jsonrpc="2.0", id=number, result=result)


def build_error(number: int | str | None, problem: str) -> JSONRPCError:
    """Return the answer that says why there is none."""
    from mcp_types import ErrorData, JSONRPCError

    text = f"the server's answer can't be read: {problem}"
    return JSONRPCError(jsonrpc="2.0", id=number, error=ErrorData(code=NO_JSON, message=text))


def _read_number(raw_number: object) -> int | str | None:
    if isinstance(raw_number, float) and raw_number.is_integer():
        return int(raw_number)
    return raw_number if isinstance(raw_number, int | str) and not isinstance(raw_number, bool) else None
