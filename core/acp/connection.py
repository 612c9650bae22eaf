"""One end of an ACP connection: JSON-RPC 2.0, one JSON object a line, requests in both directions.

Bytes go in by `feed` and out by `send`, over any transport. Messages are handled in order: a notification takes effect
before a later answer wakes its waiter. A line that is no message is noted and skipped, since agents print to standard
output what belongs to standard error.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import msgspec

from core.errors import AgentTuiError
from core.records import decode_json
from core.tasks import TaskOwner
from core.text.well_formed import encode_record

MAX_LINE: Final = 64 * 1024 * 1024  # bytes; a picture is one line
MAX_GARBAGE: Final = 400  # characters of skipped lines
MAX_LATE: Final = 200  # abandoned requests whose late answers are still handled
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
AUTH_REQUIRED: Final = -32000
NOT_FOUND: Final = -32002
CANCELLED: Final = -32800


class AcpError(AgentTuiError):
    """An error of JSON-RPC, received or to be sent. `number`: its code."""

    def __init__(self, message: str, *, number: int = INTERNAL_ERROR, data: Any = None) -> None:
        super().__init__(message, code="rpc_error")
        self.number, self.data = number, data


class PeerGone(AgentTuiError, code="peer_gone"):
    """The other side has ended, or the connection to it is closed."""


class PeerRequests(Protocol):
    """Handles the requests and notifications of the other side."""

    async def answer(self, method: str, params: Mapping[str, Any]) -> Any:
        """Return the result of a request (plain data or records). Raises `AcpError`."""

    def notice(self, method: str, params: Mapping[str, Any]) -> None:
        """Handle a notification at once."""


class Connection:
    """One end. `send` writes bytes to the other one and raises nothing."""

    def __init__(self, send: Callable[[bytes], None], handler: PeerRequests) -> None:
        self.garbage = ""  # the beginning of the skipped lines
        self._send, self._handler = send, handler
        self._buffer = bytearray()
        self._is_skipping = False
        self._number = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._late: dict[int, Callable[[Any], None]] = {}
        self._answering: dict[Any, asyncio.Task[None]] = {}
        self._tasks = TaskOwner()
        self._closed_by: PeerGone | None = None

    async def request(
        self, method: str, params: Any, *, seconds: float | None = None, on_late: Callable[[Any], None] | None = None
    ) -> Any:
        """Return the result of a request as plain data. Raises `AcpError`, `PeerGone`, `TimeoutError`. An abandoned
        request is cancelled at the other side; a result that still comes goes to `on_late`."""
        if self._closed_by is not None:
            raise self._closed_by
        self._number += 1
        number = self._number
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._write({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        try:
            async with asyncio.timeout(seconds):
                return await waiting
        except (TimeoutError, asyncio.CancelledError):
            self.notify("$/cancel_request", {"requestId": number})
            if on_late is not None:
                self._late[number] = on_late
                while len(self._late) > MAX_LATE:
                    del self._late[next(iter(self._late))]
            raise
        finally:
            self._waiting.pop(number, None)

    def notify(self, method: str, params: Any) -> None:
        """Send a notification."""
        if self._closed_by is None:
            self._write({"jsonrpc": "2.0", "method": method, "params": params})

    def feed(self, data: bytes) -> None:
        """Parse bytes from the other side, in pieces of any size."""
        *lines, rest = data.split(b"\n")
        for line in lines:
            full_line, self._buffer = bytes(self._buffer) + line, bytearray()
            is_skipped, self._is_skipping = self._is_skipping, False
            if not is_skipped and full_line.strip():
                self._handle_line(full_line)
        self._buffer += rest
        if len(self._buffer) > MAX_LINE:
            self._buffer, self._is_skipping = bytearray(), True
            self._refuse(None, INVALID_REQUEST, f"a line was longer than {MAX_LINE >> 20} MB")

    def _handle_line(self, line: bytes) -> None:
        try:
            message = decode_json(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            message = None
        if not isinstance(message, dict) or not ({"method", "result", "error"} & message.keys()):
            self._note_garbage(line)
            return
        if "method" not in message:
            self._handle_answer(message)
        elif "id" in message:
            self._start_answer(message["id"], str(message["method"]), _read_params(message))
        elif message["method"] == "$/cancel_request":
            self._cancel_answer(_read_params(message).get("requestId"))
        else:
            self._handler.notice(str(message["method"]), _read_params(message))

    def _note_garbage(self, line: bytes) -> None:
        self.garbage = (self.garbage + line.decode("utf-8", "replace") + "\n")[:MAX_GARBAGE]
        if line.lstrip().startswith(b"{"):
            self._refuse(None, PARSE_ERROR, "a line is not a JSON-RPC message")

    def _handle_answer(self, response: Mapping[str, Any]) -> None:
        number = response.get("id")
        if not isinstance(number, int):
            return
        waiting = self._waiting.get(number)
        if waiting is None or waiting.done():
            self._handle_late_answer(number, response)
            return
        if (error := response.get("error")) is None:
            waiting.set_result(response.get("result"))
            return
        error_fields = error if isinstance(error, dict) else {"message": str(error)}
        code = error_fields.get("code")
        code = code if isinstance(code, int) else INTERNAL_ERROR
        waiting.set_exception(AcpError(_describe_error(error_fields), number=code, data=error_fields.get("data")))

    def _handle_late_answer(self, number: int, response: Mapping[str, Any]) -> None:
        on_late = self._late.pop(number, None)
        if on_late is not None and response.get("error") is None:
            on_late(response.get("result"))

    def _start_answer(self, identity: Any, method: str, params: Mapping[str, Any]) -> None:
        task = self._tasks.start(self._answer(identity, method, params), name=f"answer to {method}")
        self._answering[identity] = task
        task.add_done_callback(lambda _: self._end_answer(identity, task))

    def _end_answer(self, identity: Any, task: asyncio.Task[None]) -> None:
        """Forget a request; a cancelled one is answered, too, even if it was cancelled before its first step."""
        self._answering.pop(identity, None)
        if task.cancelled():
            self._refuse(identity, CANCELLED, "the request was cancelled")

    def _cancel_answer(self, identity: Any) -> None:
        with contextlib.suppress(TypeError):  # an unhashable id
            if (task := self._answering.get(identity)) is not None:
                task.cancel()

    async def _answer(self, identity: Any, method: str, params: Mapping[str, Any]) -> None:
        try:
            result = await self._handler.answer(method, params)
        except AcpError as problem:
            self._refuse(identity, problem.number, problem.message, problem.data)
        except AgentTuiError as problem:
            self._refuse(identity, INTERNAL_ERROR, problem.format_with_hint())
        except Exception as problem:  # an internal fault in one answer must not end the connection
            self._refuse(identity, INTERNAL_ERROR, f"unexpected error: {type(problem).__name__}")
        else:
            self._write({"jsonrpc": "2.0", "id": identity, "result": result})

    def _refuse(self, identity: Any, number: int, message: str, data: Any = None) -> None:
        error = {"code": number, "message": message} | ({"data": data} if data is not None else {})
        self._write({"jsonrpc": "2.0", "id": identity, "error": error})

    def _write(self, message: Mapping[str, Any]) -> None:
        if self._closed_by is None:
            self._send(encode_record(message) + b"\n")

    def close(self, reason: str = "the connection was closed") -> None:
        """Note that the other side is gone: pending requests raise `PeerGone` with the `reason`."""
        self._closed_by = self._closed_by or PeerGone(reason)
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(self._closed_by)
        self._tasks.request_cancel()


def _read_params(message: Mapping[str, Any]) -> Mapping[str, Any]:
    params = message.get("params")
    return params if isinstance(params, dict) else {}


def _describe_error(error_fields: Mapping[str, Any]) -> str:
    """Return the message of an error with the details of its data."""
    message, data = str(error_fields.get("message") or "an error without a message"), error_fields.get("data")
    details = data.get("details") or data.get("message") if isinstance(data, dict) else data
    return f"{message}: {details}" if isinstance(details, str) and details and details not in message else message
