"""The only network of a box: an HTTP proxy on a unix socket that reaches the hosts that the user granted.

It takes `CONNECT host:port` and plain `http://` requests, one per connection, resolves names itself, refuses every
address that is not public, except private ones of hosts that the user's own settings name, and dials exactly the
address that it checked. TLS passes through unread. Refusals are reported, so that the user can be asked; finished
connections are reported with their bytes.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
import os
import re
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from core.filesystem.private_files import make_private_directory
from core.patterns import compile_lazily
from core.sandbox.addresses import (
    HostAndPort,
    IPAddress,
    explain_inner,
    is_private,
    is_public,
    parse_host_and_port,
    parse_ip_address,
)
from core.tasks import TaskOwner

MAX_HEAD_BYTES = 32 * 1024
MAX_CONNECTIONS = 128
HEAD_TIMEOUT = 20.0
DIAL_TIMEOUT = 20.0
IDLE_TIMEOUT = 600.0
_CHUNK = 65_536
_REQUEST_LINE = compile_lazily(rb"([A-Z]{1,20}) ([\x21-\x7e]{1,8192}) HTTP/1\.[01]")
_HEADER = compile_lazily(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)")
_HOP_BY_HOP_HEADERS = frozenset(
    {b"connection", b"proxy-connection", b"keep-alive", b"te", b"trailer", b"upgrade", b"host"}
)
SOCKET_NAME = "proxy.sock"

Resolver = Callable[[str], Awaitable[list[IPAddress]]]
# Answers a request for this program instead of a host; takes its head, the rest of the stream, and the answer's writer.
LocalHandler = Callable[[bytes, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class ProxiedConnection(Struct, frozen=True):
    """One connection that ended: its target, the address dialled, and its bytes there and back."""

    target: HostAndPort
    address: str
    sent: int
    received: int


class InnerHosts(Struct, frozen=True):
    """The granted hosts whose addresses are not all public. `is_named`: the user's settings name the host as one of a
    private network; `on_refusal` is called with the reason for a host that is refused because of its addresses."""

    is_named: Callable[[str], bool] = lambda _: False
    on_refusal: Callable[[HostAndPort, str], None] = lambda *_: None


class ProxyRefusal(Exception):
    """A request that the proxy refuses. `status` is HTTP's; `target` is None for an unreadable request. `is_plain`: the
    request was for a page, not for a tunnel."""

    is_plain = False

    def __init__(
        self, status: str, reason: str, target: HostAndPort | None = None, *, can_be_granted: bool = False
    ) -> None:
        super().__init__(reason)
        self.status, self.reason, self.target = status, reason, target
        self.can_be_granted = can_be_granted


class _ProxyRequest(Struct, frozen=True):
    """A request. `head`: forwarded in place of its own head (empty for CONNECT); `body`: bytes that follow."""

    target: HostAndPort
    head: bytes = b""
    body: int = 0

    @property
    def is_tunnel(self) -> bool:
        return not self.head


async def resolve_host(host: str) -> list[IPAddress]:
    """Resolve a name by the system's resolver. Raises OSError."""
    infos = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    addresses = [parse_ip_address(str(info[4][0]).partition("%")[0]) for info in infos]
    return list(dict.fromkeys(address for address in addresses if address is not None))


async def dial_address(address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to an address that was checked. Raises OSError."""
    return await asyncio.open_connection(address, port)


class Proxy:
    """The proxy of one session. `allows(host)`: True for granted hosts; `on_refusal` is called for others.

    `on_connection` is called for connections that ended; `find_handler(head)` returns the handler of a request for this
    program, None for other requests. `public` and `resolve` are for tests: no configuration reaches them.
    """

    def __init__(
        self,
        allows: Callable[[str], bool],
        *,
        on_refusal: Callable[[HostAndPort], None],
        on_connection: Callable[[ProxiedConnection], None],
        find_handler: Callable[[bytes], LocalHandler | None] | None = None,
        public: Callable[[IPAddress], bool] = is_public,
        resolve: Resolver = resolve_host,
    ) -> None:
        self._allows, self._on_refusal, self._on_connection = allows, on_refusal, on_connection
        self._find_handler = find_handler
        self._public, self._resolve = public, resolve
        self.inner = InnerHosts()
        self.login = ""  # `name:secret`, which every request has to carry; "": none has to
        self._server: asyncio.Server | None = None
        self._path: Path | None = None
        self._connections = TaskOwner()
        self._targets: dict[asyncio.Task[Any], HostAndPort] = {}

    async def start(self, directory: Path) -> Path:
        """Listen on a socket in a directory that is the user's alone; return its path."""
        listening = _listen(directory)
        self._server = await asyncio.start_unix_server(self._serve, sock=listening, limit=MAX_HEAD_BYTES)
        self._path = directory / SOCKET_NAME
        return self._path

    async def close(self) -> None:
        """End every connection. Safe to call twice."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        await self._connections.cancel()
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def end_connections(self, is_ended: Callable[[str], bool]) -> tuple[HostAndPort, ...]:
        """End the open connections to hosts for which `is_ended` is true; return their targets."""
        ended_targets = {task: target for task, target in self._targets.items() if is_ended(target.host)}
        for task in ended_targets:
            task.cancel()
        return tuple(ended_targets.values())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with self._connections.include_current_task() as task:
            try:
                await self._serve_connection(reader, writer)
            finally:
                self._targets.pop(task, None)

    async def _serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if len(self._connections) > MAX_CONNECTIONS:
                raise ProxyRefusal("503 Service Unavailable", "Too many connections at once.")
            await self._handle_connection(reader, writer)
        except ProxyRefusal as refused:
            if refused.can_be_granted and refused.target is not None:
                self._on_refusal(refused.target)
            writer.write(_render_refusal(refused))
        except (OSError, EOFError, TimeoutError):
            pass  # one side closed, so the other one sees its connection end
        except asyncio.CancelledError:
            return  # the proxy closes, or the grant was revoked
        finally:
            await close_writer(writer)

    async def _handle_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(HEAD_TIMEOUT):
            head = await _read_head(reader)
        if self._find_handler is not None and (handler := self._find_handler(head)) is not None:
            await handler(head, reader, writer)
            return
        request = _parse_request(head)
        if self.login and not carries_login(head, self.login):
            raise ProxyRefusal("407 Proxy Authentication Required", "This proxy is another program's.")
        try:
            await self._forward(request, reader, writer)
        except ProxyRefusal as refused:
            refused.is_plain = not request.is_tunnel
            raise

    async def _forward(
        self, request: _ProxyRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        target = request.target
        if not self._allows(target.host):
            raise ProxyRefusal("403 Forbidden", f"The host {target.host} was not granted.", target, can_be_granted=True)
        if (task := asyncio.current_task()) is not None:
            self._targets[task] = target
        address = await self._resolve_target(target)
        their_reader, their_writer = await self._connect(target, address)
        try:
            if request.is_tunnel:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            their_writer.write(request.head)
            limit = None if request.is_tunnel else request.body
            sent_bytes, received_bytes = await relay_streams(reader, writer, their_reader, their_writer, limit=limit)
            self._on_connection(ProxiedConnection(target, str(address), sent_bytes + len(request.head), received_bytes))
        finally:
            await close_writer(their_writer)

    async def _resolve_target(self, target: HostAndPort) -> IPAddress:
        """Return the address to dial. A name with any address that may not be reached is refused."""
        literal_address = parse_ip_address(target.host)
        try:
            async with asyncio.timeout(DIAL_TIMEOUT):
                addresses = [literal_address] if literal_address is not None else await self._resolve(target.host)
        except (OSError, UnicodeError, TimeoutError):
            addresses = []
        if not addresses:
            raise ProxyRefusal("502 Bad Gateway", f"The host {target.host} is not known.", target)
        is_named = self.inner.is_named(target.host)
        if not all(self._public(address) or (is_named and is_private(address)) for address in addresses):
            reason = explain_inner(target.host, is_named=is_named)
            self.inner.on_refusal(target, reason)
            raise ProxyRefusal("403 Forbidden", reason, target)
        return addresses[0]

    async def _connect(
        self, target: HostAndPort, address: IPAddress
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            async with asyncio.timeout(DIAL_TIMEOUT):
                return await dial_address(str(address), target.port)
        except (OSError, TimeoutError):
            raise ProxyRefusal("502 Bad Gateway", f"{target} does not answer.", target) from None


def _listen(directory: Path) -> socket.socket:
    make_private_directory(directory)
    (directory / SOCKET_NAME).unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # A socket's path is limited to 107 bytes, a directory's is not.
        listening.bind(f"/proc/self/fd/{descriptor}/{SOCKET_NAME}")
        (directory / SOCKET_NAME).chmod(0o600)
    except OSError:
        listening.close()
        raise
    finally:
        os.close(descriptor)
    return listening


async def _read_head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise ProxyRefusal("431 Request Header Fields Too Large", "The request's head is too large.") from None


def carries_login(head: bytes, login: str) -> bool:
    """True if a request's head has this login (`name:secret`) in the form that RFC 7617 gives it."""
    expected = b"basic " + base64.b64encode(login.encode())
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"proxy-authorization":
            kind, _, word = value.strip().partition(b" ")
            return hmac.compare_digest(kind.lower() + b" " + word.strip(), expected)
    return False


def _parse_request(head: bytes) -> _ProxyRequest:
    """Parse a request's head strictly: ambiguous requests are refused."""
    first, *rest = head[:-4].split(b"\r\n")
    match = _REQUEST_LINE.fullmatch(first)
    headers = [_HEADER.fullmatch(line) for line in rest]
    if match is None or not all(headers):
        raise ProxyRefusal("400 Bad Request", "This is not a request to a proxy.")
    pairs = [(header[1].lower(), header[0]) for header in headers if header]
    try:
        if match[1] == b"CONNECT":
            return _ProxyRequest(parse_host_and_port(match[2].decode("ascii")))
        return _parse_plain_request(match[1], match[2].decode("ascii"), pairs)
    except ValueError as problem:
        raise ProxyRefusal("400 Bad Request", str(problem)) from None


def _parse_plain_request(method: bytes, url: str, headers: list[tuple[bytes, bytes]]) -> _ProxyRequest:
    """Parse a request to `http://host/path` into the form for the origin server. Raises ValueError."""
    parts = re.fullmatch(r"http://([^/?#@\\]+)((?:[/?][^#]*)?)", url)
    if parts is None:
        raise ValueError("The address is not of the form http://host/path.")
    target = parse_host_and_port(parts[1], 80)
    body = _parse_body_size(headers)
    path = parts[2] if parts[2].startswith("/") else f"/{parts[2]}"
    host = str(target) if target.port != 80 else str(target).rpartition(":")[0]
    header_lines = [
        line for name, line in headers if name not in _HOP_BY_HOP_HEADERS and not name.startswith(b"proxy-")
    ]
    lines = [
        method + b" " + path.encode() + b" HTTP/1.1",
        b"Host: " + host.encode(),
        *header_lines,
        b"Connection: close",
    ]
    return _ProxyRequest(target, b"\r\n".join(lines) + b"\r\n\r\n", body)


def _parse_body_size(headers: list[tuple[bytes, bytes]]) -> int:
    """Return the number of bytes after the head; a body of unknown size would let a second request through."""
    sizes = [line.partition(b":")[2].strip() for name, line in headers if name == b"content-length"]
    if any(name == b"transfer-encoding" for name, _ in headers) or len(sizes) > 1:
        raise ValueError("A request's body must have one Content-Length.")
    if sizes and not re.fullmatch(rb"\d{1,15}", sizes[0]):
        raise ValueError("The Content-Length is not a number.")
    return int(sizes[0]) if sizes else 0


async def relay_streams(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    their_reader: asyncio.StreamReader,
    their_writer: asyncio.StreamWriter,
    *,
    limit: int | None = None,
    idle_seconds: float | None = IDLE_TIMEOUT,
) -> tuple[int, int]:
    """Relay bytes both ways until both ends are done; return the numbers of bytes sent and received.

    With a `limit` at most that many bytes are sent, and the relay ends when the answer ends. A direction in which
    nothing comes for `idle_seconds` ends (None: it may be idle for ever).
    """
    upload = asyncio.create_task(_copy_stream(reader, their_writer, limit, idle_seconds))
    back = asyncio.create_task(_copy_stream(their_reader, writer, None, idle_seconds))
    return await _wait_for_both(upload, back, is_tunnel=limit is None)


async def _copy_stream(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: int | None, idle_seconds: float | None
) -> int:
    count = 0
    with contextlib.suppress(OSError):
        while limit is None or count < limit:
            async with asyncio.timeout(idle_seconds):
                piece = await reader.read(_CHUNK if limit is None else min(_CHUNK, limit - count))
            if not piece:
                break
            count += len(piece)
            writer.write(piece)
            await writer.drain()
        if limit is None and writer.can_write_eof():
            writer.write_eof()
    return count


async def _wait_for_both(upload: asyncio.Task[int], download: asyncio.Task[int], *, is_tunnel: bool) -> tuple[int, int]:
    """Wait for both directions and return their bytes; a plain request ends when its answer ends."""
    try:
        received_bytes = await download
        if not is_tunnel:
            upload.cancel()
        await asyncio.wait({upload})
        return (upload.result() if not upload.cancelled() and upload.exception() is None else 0), received_bytes
    finally:
        upload.cancel()
        download.cancel()


def _render_refusal(refusal: ProxyRefusal) -> bytes:
    """Render the answer to a refused request. In place of a page it is cut short: otherwise a client that does not look
    at the status would take it for the page."""
    text = f"agent-tui: {refusal.reason}\n".encode()
    size = len(text) + refusal.is_plain
    head = f"HTTP/1.1 {refusal.status}\r\nContent-Type: text/plain\r\nContent-Length: {size}\r\nConnection: close"
    if refusal.status.startswith("407"):
        head += '\r\nProxy-Authenticate: Basic realm="agent-tui"'
    return head.encode() + b"\r\n\r\n" + text


async def close_writer(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError, asyncio.CancelledError):
        await writer.wait_closed()
