"""Opened ports of a session in the browser of another machine: a server beside the web page's, behind a secret.

A page of the sandbox uses absolute paths and WebSockets, so it needs an origin of its own: a port at the address of the
server. Whoever may approve gets an address with a ticket, which works once, within half a minute, and is exchanged for
a cookie. A connection whose first request has neither is refused. Everything after that request passes unread.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import ssl
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from core.clock import monotonic
from core.sandbox.proxy import close_writer, relay_streams
from core.tasks import TaskOwner

TICKET_SECONDS: Final = 30.0
HEAD_SECONDS: Final = 20.0
MAX_HEAD: Final = 64 * 1024
PARAMETER: Final = "agent-tui"
_REFUSAL: Final = (
    b"HTTP/1.1 401 Unauthorized\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
    b"Open this port from the page or the screen of agent-tui.\n"
)
_GONE: Final = (
    b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
    b"Nothing listens at this port now.\n"
)


class PortGates:
    """The gates of a server, one per opened port. `host`: the address that it listens at; `tls` as the server's."""

    def __init__(self, host: str, tls: Callable[[], ssl.SSLContext] | None = None) -> None:
        self._host, self._tls = host, tls
        self._gates: dict[int, _PortGate] = {}

    async def open(self, address: str) -> str:
        """Return an address for one visit to what is forwarded at a local `address`. Raises OSError."""
        port = urlsplit(address).port
        assert port is not None
        if port not in self._gates:
            gate = _PortGate(port)
            await gate.listen(self._host, self._tls() if self._tls is not None else None)
            self._gates[port] = gate
        scheme = "https" if self._tls is not None else "http"
        host = f"[{self._host}]" if ":" in self._host else self._host
        gate = self._gates[port]
        return f"{scheme}://{host}:{gate.port}/?{PARAMETER}={gate.issue_ticket()}"

    async def close(self) -> None:
        """End all gates with their connections."""
        gates, self._gates = list(self._gates.values()), {}
        for gate in gates:
            await gate.close()


class _PortGate:
    """A server that forwards to a port of this machine's loopback whoever has its cookie."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._secret = secrets.token_urlsafe(32)
        self._tickets: dict[str, float] = {}
        self._server: asyncio.Server | None = None
        self._connections = TaskOwner()
        self.port = 0

    async def listen(self, host: str, tls: ssl.SSLContext | None) -> None:
        self._server = await asyncio.start_server(self._serve, host, 0, ssl=tls, limit=MAX_HEAD)
        self.port = self._server.sockets[0].getsockname()[1]

    def issue_ticket(self) -> str:
        now = monotonic()
        self._tickets = {ticket: until for ticket, until in self._tickets.items() if until > now}
        ticket = secrets.token_urlsafe(32)
        self._tickets[ticket] = now + TICKET_SECONDS
        return ticket

    @property
    def _cookie_name(self) -> str:
        return f"agent_tui_{self.port}"  # a browser sends the cookies of all ports of a host

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with self._connections.include_current_task():
            await self._serve_visitor(reader, writer)

    async def _serve_visitor(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            if (answer := self._answer_visitor(head)) is not None:
                writer.write(answer)
                await writer.drain()
            else:
                await self._forward(head, reader, writer)
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            pass  # one side has closed, or it is no HTTP
        except asyncio.CancelledError:
            return
        finally:
            await close_writer(writer)

    def _answer_visitor(self, head: bytes) -> bytes | None:
        """Return the answer to who has no cookie: one for a ticket, else a refusal; None: it has one."""
        request, *headers = head[:-4].split(b"\r\n")
        if any(hmac.compare_digest(value, self._secret) for value in self._list_cookies(headers)):
            return None
        target = request.decode("latin-1").split(" ")[1:2]
        parameter = f"/?{PARAMETER}="
        ticket = target[0].removeprefix(parameter) if target and target[0].startswith(parameter) else ""
        if self._tickets.pop(ticket, 0.0) <= monotonic():
            return _REFUSAL
        cookie = f"{self._cookie_name}={self._secret}; Path=/; HttpOnly; SameSite=Strict"
        answer = f"HTTP/1.1 303 See Other\r\nLocation: /\r\nSet-Cookie: {cookie}\r\nReferrer-Policy: no-referrer\r\n"
        return f"{answer}Cache-Control: no-store\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()

    def _list_cookies(self, headers: list[bytes]) -> list[str]:
        """Return the values of our cookie in a request."""
        values = list[str]()
        for header in headers:
            name, _, value = header.partition(b":")
            if name.strip().lower() == b"cookie":
                pairs = (pair.strip().partition("=") for pair in value.decode("latin-1").split(";"))
                values += [cookie for key, _, cookie in pairs if key == self._cookie_name]
        return values

    async def _forward(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            their_reader, their_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.write(_GONE)
            return
        try:
            their_writer.write(head.replace(self._secret.encode(), b"-"))
            await relay_streams(reader, writer, their_reader, their_writer, idle_seconds=None)
        finally:
            await close_writer(their_writer)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        await self._connections.cancel()
