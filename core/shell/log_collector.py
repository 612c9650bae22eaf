"""The HTTP endpoint for probes that can write no file: `POST /ingest/<session>/<token>` on loopback.

It listens only while a run needs it. A request without the token of the run gets no information; records are bounded in
size and number, and go to a file that no command can access. Pages of any origin may send records, since the answers
reveal nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from core.clock import monotonic
from core.patterns import compile_lazily
from core.records import parse_json
from core.tasks import TaskOwner

MAX_HEAD = 16 * 1024
MAX_BODY = 1 << 20
MAX_RUN_BYTES = 32 << 20  # bytes of one run
RATE_PER_SECOND, RATE_BURST = 500.0, 2_000.0  # requests
MAX_CONNECTIONS = 64
REQUEST_TIMEOUT = 10.0  # seconds for one request
_REQUEST_LINE = compile_lazily(rb"(POST|OPTIONS) /ingest/([A-Za-z0-9_.-]{1,80})/([A-Za-z0-9_-]{1,80}) HTTP/1\.[01]")
_LENGTH = compile_lazily(rb"\d{1,12}")
_CORS = (
    b"Access-Control-Allow-Origin: *\r\nAccess-Control-Allow-Methods: POST, OPTIONS\r\n"
    b"Access-Control-Allow-Headers: content-type\r\nAccess-Control-Allow-Private-Network: true\r\n"
    b"Access-Control-Max-Age: 600\r\n"
)
LOOPBACK_NAMES = (b"127.0.0.1", b"localhost", b"[::1]")


class RequestRejected(Exception):
    """A rejected request; the argument is the HTTP status of the answer."""


class _IngestRequest(Struct, frozen=True):
    method: bytes
    session: bytes
    token: bytes
    headers: Mapping[bytes, bytes]


class LogCollector:
    """The endpoint of one run. `log`: the file of its records, one per line."""

    def __init__(self, session: str, log: Path) -> None:
        self._session = session.encode()
        self._token = secrets.token_urlsafe(32)
        self._log = log
        self._server: asyncio.Server | None = None
        self._connections = TaskOwner()
        self._rate_tokens = RATE_BURST
        self._refilled_at = monotonic()
        self._bytes_taken = 0
        self.port = 0

    @property
    def path(self) -> str:
        """The path of its URL."""
        return f"/ingest/{self._session.decode()}/{self._token}"

    @property
    def url(self) -> str:
        """Its URL on this machine."""
        return f"http://127.0.0.1:{self.port}{self.path}"

    async def start(self) -> None:
        """Listen on loopback, on a free port. Raises OSError."""
        self._server = await asyncio.start_server(self._handle_connection, "127.0.0.1", 0, limit=MAX_HEAD)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """End every connection. Safe to call twice."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        await self._connections.cancel()

    async def _handle_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= MAX_CONNECTIONS:  # before reading: silent clients occupy connections, too
            writer.close()
            return
        with self._connections.include_current_task():
            await self._serve_client(reader, writer)

    async def _serve_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT):
                head = await reader.readuntil(b"\r\n\r\n")
                await self.handle_request(head, reader, writer)
        except asyncio.LimitOverrunError:
            writer.write(_format_response("431 Request Header Fields Too Large"))
        except (OSError, EOFError, TimeoutError):
            pass  # the client is gone, or too slow
        except asyncio.CancelledError:
            return
        finally:
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    async def handle_request(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, whose head was read already, and record its body."""
        try:
            request = self._authenticate(head)
            if request.method == b"POST":
                self._append_record(await _read_body(request, reader))
            status = "204 No Content"
        except RequestRejected as rejected:
            status = str(rejected)
        writer.write(_format_response(status))
        await writer.drain()

    def _authenticate(self, head: bytes) -> _IngestRequest:
        request = _parse_request(head)
        host = request.headers.get(b"host", b"")
        name = host.rpartition(b":")[0] if re.search(rb":\d+$", host) else host
        if name not in LOOPBACK_NAMES:  # DNS rebinding: a foreign name that resolves to loopback
            raise RequestRejected("421 Misdirected Request")
        if request.session != self._session or not hmac.compare_digest(request.token, self._token.encode()):
            raise RequestRejected("404 Not Found")
        self._check_rate()
        return request

    def _check_rate(self) -> None:
        now = monotonic()
        self._rate_tokens = min(RATE_BURST, self._rate_tokens + (now - self._refilled_at) * RATE_PER_SECOND)
        self._refilled_at = now
        if self._rate_tokens < 1:
            raise RequestRejected("429 Too Many Requests")
        self._rate_tokens -= 1

    def _append_record(self, body: bytes) -> None:
        """Append a body to the log: a JSON value as one line, a list as a line per item, anything else unchanged."""
        try:
            value = parse_json(body)
            lines = "\n".join(map(json.dumps, value if isinstance(value, list) else [value])).encode()
        except (ValueError, RecursionError):
            lines = body.strip(b"\r\n")
        if self._bytes_taken + len(lines) > MAX_RUN_BYTES:
            raise RequestRejected("507 Insufficient Storage")
        self._bytes_taken += len(lines) + 1
        try:
            descriptor = os.open(
                self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
            )
        except OSError:
            raise RequestRejected("507 Insufficient Storage") from None
        with os.fdopen(descriptor, "wb") as file:
            file.write(lines + b"\n")


def is_ingest(head: bytes) -> bool:
    """True if a request head is addressed to the collector."""
    return head.startswith((b"POST /ingest/", b"OPTIONS /ingest/"))


def _parse_request(head: bytes) -> _IngestRequest:
    first, *rest = head[:-4].split(b"\r\n")
    match = _REQUEST_LINE.fullmatch(first)
    if match is None:
        raise RequestRejected("404 Not Found")
    headers: dict[bytes, bytes] = {}
    for line in rest:
        name, colon, value = line.partition(b":")
        if not colon or name.lower() in headers:
            raise RequestRejected("400 Bad Request")
        headers[name.lower()] = value.strip()
    return _IngestRequest(match[1], match[2], match[3], headers)


async def _read_body(request: _IngestRequest, reader: asyncio.StreamReader) -> bytes:
    size = request.headers.get(b"content-length", b"")
    if b"transfer-encoding" in request.headers or _LENGTH.fullmatch(size) is None:
        raise RequestRejected("411 Length Required")
    if int(size) > MAX_BODY:
        raise RequestRejected("413 Content Too Large")
    async with asyncio.timeout(REQUEST_TIMEOUT):
        return await reader.readexactly(int(size))


def _format_response(status: str) -> bytes:
    return f"HTTP/1.1 {status}\r\n".encode() + _CORS + b"Content-Length: 0\r\nConnection: close\r\n\r\n"
