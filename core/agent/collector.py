"""The collector: probes that can write no file send what they log, `POST /ingest/<session>/<token>` on loopback.

It listens while a run needs it and at no other time. Whoever does not know the token of the run is told nothing; what
comes is bounded in size and number, and goes to a file that no command can reach (SAFETY: a page of any origin may
send, since it can learn nothing by it).
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

MAX_HEAD = 16 * 1024
MAX_BODY = 1 << 20
MAX_TOTAL = 32 << 20  # bytes of one run
PER_SECOND, BURST = 500.0, 2_000.0  # requests
MAX_CONNECTIONS = 64
PATIENCE = 10.0  # seconds for one request
_FIRST = re.compile(rb"(POST|OPTIONS) /ingest/([A-Za-z0-9_.-]{1,80})/([A-Za-z0-9_-]{1,80}) HTTP/1\.[01]")
_LENGTH = re.compile(rb"\d{1,12}")
_CORS = (
    b"Access-Control-Allow-Origin: *\r\nAccess-Control-Allow-Methods: POST, OPTIONS\r\n"
    b"Access-Control-Allow-Headers: content-type\r\nAccess-Control-Allow-Private-Network: true\r\n"
    b"Access-Control-Max-Age: 600\r\n"
)
OWN_NAMES = (b"127.0.0.1", b"localhost", b"[::1]")


class Rejected(Exception):
    """The request is answered with this status and nothing is kept."""

    def __init__(self, status: str) -> None:
        super().__init__(status)
        self.status = status


class _Request(Struct, frozen=True):
    method: bytes
    session: bytes
    token: bytes
    headers: Mapping[bytes, bytes]


class Collector:
    """That of one run. `log` is where records go, one a line."""

    def __init__(self, session: str, log: Path) -> None:
        self._session = session.encode()
        self._token = secrets.token_urlsafe(32)
        self._log = log
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self._room = BURST
        self._at = monotonic()
        self._taken = 0
        self.port = 0

    @property
    def path(self) -> str:
        """What a URL for it has after its host and port."""
        return f"/ingest/{self._session.decode()}/{self._token}"

    @property
    def url(self) -> str:
        """Where it listens on this machine."""
        return f"http://127.0.0.1:{self.port}{self.path}"

    async def start(self) -> None:
        """Listen on loopback, on a port that is free. Raises OSError."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=MAX_HEAD)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """End every connection. Safe to call twice."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for task in self._open:
            task.cancel()
        if self._open:
            await asyncio.wait(self._open)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= MAX_CONNECTIONS:  # before anything is read: whoever says nothing holds one, too
            writer.close()
            return
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            async with asyncio.timeout(PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
                await self.take(head, reader, writer)
        except asyncio.LimitOverrunError:
            writer.write(_answer("431 Request Header Fields Too Large"))
        except (OSError, EOFError, TimeoutError):
            pass  # whoever sent it is gone, or too slow
        except asyncio.CancelledError:
            return
        finally:
            self._open.discard(task)
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    async def take(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, whose head was read already, and keep what it sends."""
        try:
            request = self._checked(head)
            if request.method == b"POST":
                self._keep(await _body(request, reader))
            status = "204 No Content"
        except Rejected as rejected:
            status = rejected.status
        writer.write(_answer(status))
        await writer.drain()

    def _checked(self, head: bytes) -> _Request:
        request = _parsed(head)
        host = request.headers.get(b"host", b"")
        name = host.rpartition(b":")[0] if re.search(rb":\d+$", host) else host
        if name not in OWN_NAMES:  # a name that somebody else's server gave to this address
            raise Rejected("421 Misdirected Request")
        known = request.session == self._session and hmac.compare_digest(request.token, self._token.encode())
        if not known:
            raise Rejected("404 Not Found")
        self._count()
        return request

    def _count(self) -> None:
        now = monotonic()
        self._room = min(BURST, self._room + (now - self._at) * PER_SECOND)
        self._at = now
        if self._room < 1:
            raise Rejected("429 Too Many Requests")
        self._room -= 1

    def _keep(self, body: bytes) -> None:
        """One JSON value over several lines becomes one line, each value of a list one; else the lines are kept as they
        are."""
        try:
            value = json.loads(body)
            lines = "\n".join(map(json.dumps, value if isinstance(value, list) else [value])).encode()
        except (ValueError, RecursionError):
            lines = body.strip(b"\r\n")
        if self._taken + len(lines) > MAX_TOTAL:
            raise Rejected("507 Insufficient Storage")
        self._taken += len(lines) + 1
        try:
            descriptor = os.open(
                self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
            )
        except OSError:
            raise Rejected("507 Insufficient Storage") from None
        with os.fdopen(descriptor, "wb") as file:
            file.write(lines + b"\n")


def is_ingest(head: bytes) -> bool:
    """Whether a request is for the collector, by its first line."""
    return head.startswith((b"POST /ingest/", b"OPTIONS /ingest/"))


def _parsed(head: bytes) -> _Request:
    first, *rest = head[:-4].split(b"\r\n")
    found = _FIRST.fullmatch(first)
    if found is None:
        raise Rejected("404 Not Found")
    headers: dict[bytes, bytes] = {}
    for line in rest:
        name, colon, value = line.partition(b":")
        if not colon or name.lower() in headers:
            raise Rejected("400 Bad Request")
        headers[name.lower()] = value.strip()
    return _Request(found[1], found[2], found[3], headers)


async def _body(request: _Request, reader: asyncio.StreamReader) -> bytes:
    size = request.headers.get(b"content-length", b"")
    if b"transfer-encoding" in request.headers or _LENGTH.fullmatch(size) is None:
        raise Rejected("411 Length Required")
    if int(size) > MAX_BODY:
        raise Rejected("413 Content Too Large")
    async with asyncio.timeout(PATIENCE):
        return await reader.readexactly(int(size))


def _answer(status: str) -> bytes:
    return f"HTTP/1.1 {status}\r\n".encode() + _CORS + b"Content-Length: 0\r\nConnection: close\r\n\r\n"
