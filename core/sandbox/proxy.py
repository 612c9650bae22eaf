"""The only way out of a box: an HTTP proxy on a unix socket that reaches the hosts that the user granted (SAFETY D31).

It takes `CONNECT host:port` and plain `http://` requests, one a connection, looks names up itself, refuses every
address that is not public, and dials exactly the address that it judged. TLS passes through unread. What is refused is
reported, so that the user can be asked; what passed is reported with its bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec import Struct

from core.sandbox.addresses import Address, Target, is_public, literal, parse_target

MAX_HEAD = 32 * 1024
MAX_CONNECTIONS = 128
HEAD_TIME = 20.0
DIAL_TIME = 20.0
IDLE_TIME = 600.0
_PIECE = 65_536
_REQUEST = re.compile(rb"([A-Z]{1,20}) ([\x21-\x7e]{1,8192}) HTTP/1\.[01]")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)")
_HOP = frozenset({b"connection", b"proxy-connection", b"keep-alive", b"te", b"trailer", b"upgrade", b"host"})
SOCKET = "proxy.sock"

Resolve = Callable[[str], Awaitable[list[Address]]]
# What answers a request that is for us and no host: its head, then what follows it, and where the answer goes.
Own = Callable[[bytes, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Passed(Struct, frozen=True):
    """One connection that ended: where it went, and its bytes there and back."""

    target: Target
    address: str
    sent: int
    received: int


class Refused(Exception):
    """The proxy does not do that. `status` is HTTP's; `target` is known when the request could be read."""

    def __init__(self, status: str, reason: str, target: Target | None = None, *, unknown: bool = False) -> None:
        super().__init__(reason)
        self.status, self.reason, self.target = status, reason, target
        self.may_be_granted = unknown


class _Request(Struct, frozen=True):
    """`head`: what is sent on in place of the request's own head (empty for CONNECT); `body`: bytes that follow it."""

    target: Target
    head: bytes = b""
    body: int = 0

    @property
    def is_tunnel(self) -> bool:
        return not self.head


async def look_up(host: str) -> list[Address]:
    """The addresses of a name, by the system's resolver. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    addresses = [literal(str(each[4][0]).partition("%")[0]) for each in found]
    return list(dict.fromkeys(each for each in addresses if each is not None))


def nothing_of_ours(_: bytes) -> Own | None:
    """Every request is for a host."""
    return None


class Proxy:
    """`allows(host)` says whether a host was granted. `refused(target)` is told of hosts that were not, `passed` of
    connections that ended; `own(head)` gives what answers a request itself, if it is for us. `public` and `resolve` are
    for tests: nothing that is configured reaches them."""

    def __init__(
        self,
        allows: Callable[[str], bool],
        *,
        refused: Callable[[Target], None],
        passed: Callable[[Passed], None],
        own: Callable[[bytes], Own | None] = nothing_of_ours,
        public: Callable[[Address], bool] = is_public,
        resolve: Resolve = look_up,
    ) -> None:
        self._allows, self._refused, self._passed = allows, refused, passed
        self._own = own
        self._public, self._resolve = public, resolve
        self._server: asyncio.Server | None = None
        self._path: Path | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def start(self, directory: Path) -> Path:
        """Listen on a socket in a directory that is the user's alone; answers with its path."""
        listening = _listen(directory)
        self._server = await asyncio.start_unix_server(self._serve, sock=listening, limit=MAX_HEAD)
        self._path = directory / SOCKET
        return self._path

    async def close(self) -> None:
        """End every connection. Safe to call twice."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        for task in self._open:
            task.cancel()
        if self._open:
            await asyncio.wait(self._open)
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            if len(self._open) > MAX_CONNECTIONS:
                raise Refused("503 Service Unavailable", "Too many connections at once.")
            await self._carry(reader, writer)
        except Refused as refused:
            if refused.may_be_granted and refused.target is not None:
                self._refused(refused.target)
            writer.write(_answer(refused))
        except (OSError, EOFError, TimeoutError):
            pass  # one side left: the other one sees its connection end
        except asyncio.CancelledError:
            return  # the proxy closes; there is nobody to tell
        finally:
            self._open.discard(task)
            await _hang_up(writer)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(HEAD_TIME):
            head = await _read_head(reader)
        if (ours := self._own(head)) is not None:
            await ours(head, reader, writer)
            return
        request = _request(head)
        target = request.target
        if not self._allows(target.host):
            raise Refused("403 Forbidden", f"The host {target.host} was not granted.", target, unknown=True)
        address = await self._address(target)
        their_reader, their_writer = await self._dial(target, address)
        try:
            if request.is_tunnel:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            their_writer.write(request.head)
            limit = None if request.is_tunnel else request.body
            there = asyncio.create_task(_pass_on(reader, their_writer, limit))
            back = asyncio.create_task(_pass_on(their_reader, writer, None))
            sent, received = await _both(there, back, is_tunnel=request.is_tunnel)
            self._passed(Passed(target, str(address), sent + len(request.head), received))
        finally:
            await _hang_up(their_writer)

    async def _address(self, target: Target) -> Address:
        """The one address that will be dialled. One that is not public among them refuses the name."""
        known = literal(target.host)
        try:
            async with asyncio.timeout(DIAL_TIME):
                addresses = [known] if known is not None else await self._resolve(target.host)
        except (OSError, UnicodeError, TimeoutError):
            addresses = []
        if not addresses:
            raise Refused("502 Bad Gateway", f"The host {target.host} is not known.", target)
        if not all(map(self._public, addresses)):
            raise Refused("403 Forbidden", f"The host {target.host} is not out in the public network.", target)
        return addresses[0]

    async def _dial(self, target: Target, address: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            async with asyncio.timeout(DIAL_TIME):
                return await asyncio.open_connection(str(address), target.port)
        except (OSError, TimeoutError):
            raise Refused("502 Bad Gateway", f"{target} does not answer.", target) from None


def _listen(directory: Path) -> socket.socket:
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    (directory / SOCKET).unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    place = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # A path of a socket has 107 bytes at most, a directory's may have more.
        listening.bind(f"/proc/self/fd/{place}/{SOCKET}")
        (directory / SOCKET).chmod(0o600)
    except OSError:
        listening.close()
        raise
    finally:
        os.close(place)
    return listening


async def _read_head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise Refused("431 Request Header Fields Too Large", "The request's head is too large.") from None


def _request(head: bytes) -> _Request:
    """A request's head, strictly: what could be read in two ways is refused."""
    first, *rest = head[:-4].split(b"\r\n")
    found = _REQUEST.fullmatch(first)
    headers = [_HEADER.fullmatch(each) for each in rest]
    if found is None or not all(headers):
        raise Refused("400 Bad Request", "This is not a request to a proxy.")
    pairs = [(each[1].lower(), each[0]) for each in headers if each]
    try:
        if found[1] == b"CONNECT":
            return _Request(parse_target(found[2].decode("ascii")))
        return _plain(found[1], found[2].decode("ascii"), pairs)
    except ValueError as problem:
        raise Refused("400 Bad Request", str(problem)) from None


def _plain(method: bytes, url: str, headers: list[tuple[bytes, bytes]]) -> _Request:
    """A request to `http://host/path`, told to the host in its own form. Raises ValueError."""
    parts = re.fullmatch(r"http://([^/?#@\\]+)((?:[/?][^#]*)?)", url)
    if parts is None:
        raise ValueError("The address is not of the form http://host/path.")
    target = parse_target(parts[1], 80)
    body = _body_size(headers)
    path = parts[2] if parts[2].startswith("/") else f"/{parts[2]}"
    host = str(target) if target.port != 80 else str(target).rpartition(":")[0]
    kept = [line for name, line in headers if name not in _HOP and not name.startswith(b"proxy-")]
    lines = [method + b" " + path.encode() + b" HTTP/1.1", b"Host: " + host.encode(), *kept, b"Connection: close"]
    return _Request(target, b"\r\n".join(lines) + b"\r\n\r\n", body)


def _body_size(headers: list[tuple[bytes, bytes]]) -> int:
    """How many bytes follow the head; a body of unknown size would let a second request through."""
    sizes = [line.partition(b":")[2].strip() for name, line in headers if name == b"content-length"]
    if any(name == b"transfer-encoding" for name, _ in headers) or len(sizes) > 1:
        raise ValueError("A request's body must have one Content-Length.")
    if sizes and not re.fullmatch(rb"\d{1,15}", sizes[0]):
        raise ValueError("The Content-Length is not a number.")
    return int(sizes[0]) if sizes else 0


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: int | None) -> int:
    """Bytes from one side to the other until the end, or `limit` of them. How many they were."""
    count = 0
    with contextlib.suppress(OSError):
        while limit is None or count < limit:
            async with asyncio.timeout(IDLE_TIME):
                piece = await reader.read(_PIECE if limit is None else min(_PIECE, limit - count))
            if not piece:
                break
            count += len(piece)
            writer.write(piece)
            await writer.drain()
        if limit is None and writer.can_write_eof():
            writer.write_eof()
    return count


async def _both(there: asyncio.Task[int], back: asyncio.Task[int], *, is_tunnel: bool) -> tuple[int, int]:
    """Until both directions have ended; the answer to a plain request is its end."""
    try:
        received = await back
        if not is_tunnel:
            there.cancel()
        await asyncio.wait({there})
        return (there.result() if not there.cancelled() and there.exception() is None else 0), received
    finally:
        there.cancel()
        back.cancel()


def _answer(refused: Refused) -> bytes:
    text = f"agent-tui: {refused.reason}\n".encode()
    head = f"HTTP/1.1 {refused.status}\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\nConnection: close"
    return head.encode() + b"\r\n\r\n" + text


async def _hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError, asyncio.CancelledError):
        await writer.wait_closed()
