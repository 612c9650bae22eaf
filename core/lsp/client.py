"""The client of one language server: the frames of the protocol, requests with their answers, and requests of the
server.

It knows messages and no documents. A violation of the protocol or a flood of messages ends the connection, and every
pending request gets the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec
from msgspec import Struct

from core.errors import ToolFailed
from core.lsp.messages import UNREADABLE
from core.patterns import compile_lazily
from core.records import decode_json

MAX_FRAME: Final = 16 << 20  # bytes; larger bodies are skipped
_MAX_HEAD: Final = 16 << 10
_END_OF_HEAD: Final = compile_lazily(rb"\r?\n\r?\n")
_LENGTH: Final = compile_lazily(rb"(?im)^content-length[ \t]*:[ \t]*(\d{1,18})[ \t]*\r?$")
MAX_UNSOLICITED: Final = 64 << 20  # bytes that a server may send between two of our requests
METHOD_NOT_FOUND: Final = -32601
# Cancelled by the client, content modified, cancelled by the server: worth a retry.
CANCELLED: Final = (-32800, -32801, -32802)
_NOTHING: Final = msgspec.Raw(b"null")


class RequestRefused(ToolFailed, code="server_refused"):
    """The server answered with an error; `number` is its code."""

    number = 0


class ServerGone(ToolFailed, code="server_gone"):
    """The server is not running or not connected."""


class LspClient:
    """A connection. `on_notification(method, params)` receives notifications; `settings` answer configuration
    requests."""

    def __init__(
        self,
        send: Callable[[bytes], None],
        on_notification: Callable[[str, msgspec.Raw], None],
        settings: Mapping[str, Any],
    ) -> None:
        self._send, self._on_notification, self._settings = send, on_notification, settings
        self._frames = FrameReader()
        self._waiting: dict[int, asyncio.Future[msgspec.Raw]] = {}
        self._last_id = 0
        self._unsolicited = 0
        self.problem = ""
        self.on_end: Callable[[], None] = lambda: None

    def feed(self, data: bytes) -> None:
        """Process output of the server. Invalid messages are skipped; an invalid stream ends the connection."""
        if self.problem:
            return
        self._unsolicited += len(data)
        try:
            for body in self._frames.feed(data):
                try:
                    self._receive(decode_json(body, RpcMessage))
                except UNREADABLE:
                    continue
        except ToolFailed as problem:
            self.fail(problem.message)
        if self._unsolicited > MAX_UNSOLICITED:
            self.fail("It floods its client with messages.")

    def fail(self, reason: str) -> None:
        """End the connection; pending requests fail with the reason."""
        self.problem = self.problem or reason
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ServerGone(self.problem))
        self._waiting.clear()
        self.on_end()

    async def request(self, method: str, params: object, *, seconds: float) -> msgspec.Raw:
        """Return the result of a request. Raises `RequestRefused`, `ServerGone`, and `TimeoutError` after `seconds`."""
        if self.problem:
            raise ServerGone(self.problem)
        self._last_id += 1
        number = self._last_id
        answer: asyncio.Future[msgspec.Raw] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        self._unsolicited = 0
        self._write({"id": number, "method": method, "params": params})
        try:
            async with asyncio.timeout(seconds):
                return await answer
        except (TimeoutError, asyncio.CancelledError):
            if not self.problem:
                self.notify("$/cancelRequest", {"id": number})
            raise
        finally:
            self._waiting.pop(number, None)

    def notify(self, method: str, params: object) -> None:
        """Send a notification."""
        if not self.problem:
            self._write({"method": method, "params": params})

    def _write(self, message: Mapping[str, object]) -> None:
        self._send(build_frame(msgspec.json.encode({"jsonrpc": "2.0", **message})))

    def _receive(self, message: RpcMessage) -> None:
        if message.method and message.id is not None:
            self._answer(message)
        elif message.method:
            self._on_notification(message.method, message.params)
        elif isinstance(message.id, int) and (waiting := self._waiting.get(message.id)) and not waiting.done():
            if message.error is None:
                waiting.set_result(message.result)
            else:
                refusal = RequestRefused(message.error.message[:500] or "The server refused.")
                refusal.number = message.error.code
                waiting.set_exception(refusal)

    def _answer(self, request: RpcMessage) -> None:
        """Answer a request of the server; some servers wait for it before they continue."""
        match request.method:
            case "workspace/configuration":
                self._write({"id": request.id, "result": self._find_settings(request.params)})
            case (
                "client/registerCapability"
                | "client/unregisterCapability"
                | "window/workDoneProgress/create"
                | "window/showMessageRequest"
                | "workspace/diagnostic/refresh"
                | "workspace/semanticTokens/refresh"
                | "workspace/inlayHint/refresh"
                | "workspace/codeLens/refresh"
                | "workspace/workspaceFolders"
            ):
                self._write({"id": request.id, "result": None})
            case "workspace/applyEdit":
                self._write({"id": request.id, "result": {"applied": False}})
            case _:
                self._write({"id": request.id, "error": {"code": METHOD_NOT_FOUND, "message": "not supported here"}})

    def _find_settings(self, params: msgspec.Raw) -> list[object]:
        """Return the settings of every requested section, None where there are none."""
        request: Any = None
        with suppress(*UNREADABLE):
            request = decode_json(params)
        settings: list[object] = []
        for item in request["items"] if isinstance(request, dict) and isinstance(request.get("items"), list) else []:
            value: object = self._settings or None
            section = item.get("section") if isinstance(item, dict) else None
            for name in section.split(".") if isinstance(section, str) and section else ():
                value = value.get(name) if isinstance(value, Mapping) else None
            settings.append(value)
        return settings


def build_frame(body: bytes) -> bytes:
    """Return a body with its header."""
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


class FrameReader:
    """A parser of a byte stream into bodies. It ignores headers other than `Content-Length`."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._wanted = -1  # length of the current body, -1 before its header
        self._skipped = 0  # remaining bytes of a body that is too large

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the bodies that `data` completes. Raises `ToolFailed` for an invalid frame."""
        self._buffer += data
        while True:
            if self._skipped:
                skip_count = min(self._skipped, len(self._buffer))
                del self._buffer[:skip_count]
                self._skipped -= skip_count
            if self._skipped or not (self._wanted >= 0 or self._read_head()):
                return
            if self._wanted > MAX_FRAME:
                self._skipped, self._wanted = self._wanted, -1
                continue
            if len(self._buffer) < self._wanted:
                return
            body = bytes(self._buffer[: self._wanted])
            del self._buffer[: self._wanted]
            self._wanted = -1
            yield body

    def _read_head(self) -> bool:
        end = _END_OF_HEAD.search(self._buffer, 0, _MAX_HEAD)
        if end is None:
            if len(self._buffer) > _MAX_HEAD:
                raise ToolFailed("Its output is not the language server protocol.")
            return False
        length = _LENGTH.search(self._buffer, 0, end.end())
        if length is None:
            raise ToolFailed("It sent a message without a length.")
        self._wanted = int(length[1])
        del self._buffer[: end.end()]
        return True


class RpcError(Struct, frozen=True):
    code: int = 0
    message: str = ""


class RpcMessage(Struct, frozen=True):
    """Any message: a request has id and method, a notification only a method, a response only an id."""

    id: int | str | None = None
    method: str = ""
    params: msgspec.Raw = _NOTHING
    result: msgspec.Raw = _NOTHING
    error: RpcError | None = None
