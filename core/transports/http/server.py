"""The HTTP server: a listening socket, uvicorn with limits on every connection, and the engines behind it.

uvicorn waits without limit for the headers of a request, and for a reader to take what was written for it.
`GuardedProtocol` drops a client in either case.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import signal
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import uvicorn
from msgspec import Struct
from msgspec.structs import replace
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from core.errors import ConfigError
from core.transports.http.access import AccessRules, Tokens
from core.transports.http.app import PAGE_PATHS
from core.transports.http.port_gates import PortGates
from core.transports.http.service import HttpService
from core.transports.http.web_routes import TERMINALS

HEADER_LIMIT: Final = 15.0  # seconds until the headers of a request are complete
READER_LIMIT: Final = 30.0  # seconds in which a lagging reader must take `LEAST_READ`
LEAST_READ: Final = 32 * 1024  # bytes
MAX_HEADERS: Final = 32 * 1024  # bytes
MAX_CONNECTIONS: Final = 2_000
KEEP_ALIVE: Final = 30  # seconds
MAX_FRAME: Final = 16 * 1024 * 1024  # bytes of a WebSocket message
CLOSE_LIMIT: Final = 3  # seconds for open streams when the server ends
STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
BACKLOG: Final = 512


class ListenAddress(Struct, frozen=True, kw_only=True):
    """The address of a server: `host` and `port` (0 = any free one), or `socket_path`."""

    host: str = "127.0.0.1"
    port: int = 0
    socket_path: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def check_exposure(self) -> None:
        """Raise `ConfigError` for an address that other machines reach without TLS."""
        if self.socket_path is None and self.certificate is None and not is_loopback(self.host):
            raise ConfigError(
                f"other machines reach {self.host}, and the traffic could be read on the way.",
                hint="Give --tls-cert and --tls-key, or stay on 127.0.0.1 and come by ssh -L.",
                code="tls_missing",
            )


def is_loopback(host: str) -> bool:
    """Return True if only this machine reaches a host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def open_socket(listen_address: ListenAddress) -> socket.socket:
    """Open the listening socket. Raises `ConfigError`."""
    try:
        if listen_address.socket_path is not None:
            return _open_unix_socket(listen_address.socket_path)
        family = socket.AF_INET6 if ":" in listen_address.host else socket.AF_INET
        listening = socket.create_server((listen_address.host, listen_address.port), family=family, backlog=BACKLOG)
        # asyncio sets it only for sockets that name their protocol; without it an answer waits 40 ms for an ACK
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except (OSError, OverflowError) as problem:
        address = listen_address.socket_path or f"{listen_address.host}:{listen_address.port}"
        raise ConfigError(f"nothing can listen at {address}: {problem}.", code="address_refused") from problem


def _open_unix_socket(path: Path) -> socket.socket:
    """Open a socket that only its owner can reach, whatever the umask is."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        with contextlib.suppress(FileNotFoundError):
            if path.is_socket() and not _is_answered(path):
                path.unlink()
        listening.bind(str(path))
    except OSError:
        listening.close()
        raise
    finally:
        os.umask(before)
    listening.listen(BACKLOG)
    return listening


def _is_answered(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        return probe.connect_ex(str(path)) == 0


def build_rules(
    listen_address: ListenAddress,
    port: int,
    tokens: Tokens,
    *,
    origins: Iterable[str] = (),
    hosts: Iterable[str] = (),
    has_page: bool = False,
) -> AccessRules:
    """Build the access rules of a server at a port. `has_page`: it serves the web page, which needs no token."""
    host_names = {host.lower() for host in hosts}
    if listen_address.socket_path is not None:
        host_names |= {"localhost"}
    else:
        own_hosts = (
            ["127.0.0.1", "localhost", "[::1]"] if is_loopback(listen_address.host) else [_bracket(listen_address.host)]
        )
        host_names |= {f"{host}:{port}" for host in own_hosts}
        if port == (443 if listen_address.certificate is not None else 80):
            host_names |= set(own_hosts)
    allowed_origins = frozenset(origin.rstrip("/").lower() for origin in origins)
    rules = AccessRules(tokens=tokens, hosts=frozenset(host_names), origins=allowed_origins)
    return replace(rules, public=PAGE_PATHS, ticketed=TERMINALS) if has_page else rules


def build_gates(listen_address: ListenAddress) -> PortGates | None:
    """Build the gates for opened ports beside a server; None: it listens at a socket."""
    if listen_address.socket_path is not None:
        return None
    certificate, key = listen_address.certificate, listen_address.key
    if certificate is None:
        return PortGates(listen_address.host)

    def load_certificate() -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        return context

    return PortGates(listen_address.host, load_certificate)


def _bracket(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def build_url(listen_address: ListenAddress, port: int) -> str:
    """Return the URL of the server."""
    scheme = "https" if listen_address.certificate is not None else "http"
    return f"{scheme}://{_bracket(listen_address.host)}:{port}/"


class HttpServer:
    """Serves an application over a listening socket. `on_ready` is called once requests are answered."""

    def __init__(
        self,
        listening: socket.socket,
        application: ASGIApp,
        *,
        service: HttpService,
        listen_address: ListenAddress,
        on_ready: Callable[[], None],
    ) -> None:
        self._listening, self._service, self._place = listening, service, listen_address
        config = uvicorn.Config(
            application,
            http=GuardedProtocol,
            ws="websockets-sansio",
            ws_max_size=MAX_FRAME,
            lifespan="on",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=CLOSE_LIMIT,
            h11_max_incomplete_event_size=MAX_HEADERS,
            ssl_certfile=listen_address.certificate,
            ssl_keyfile=listen_address.key,
        )
        self._server = _Server(config, on_ready, service.engines.close)

    async def run(self) -> None:
        """Serve until a signal or `stop`; then close the engines. Those that open while the last requests end are
        closed after them."""
        try:
            await self._server.serve(sockets=[self._listening])
        finally:
            if self._service.gates is not None:
                await self._service.gates.close()
            await self._service.engines.close()
            if self._place.socket_path is not None:
                self._place.socket_path.unlink(missing_ok=True)

    def stop(self) -> None:
        """Make `run` end soon."""
        self._server.should_exit = True


class _Server(uvicorn.Server):
    """uvicorn with a callback when it is ready, and one when it ends, before it waits for its streams: what ends them
    is part of them."""

    def __init__(
        self, config: uvicorn.Config, on_ready: Callable[[], None], on_end: Callable[[], Awaitable[None]]
    ) -> None:
        super().__init__(config)
        self._on_ready, self._on_end = on_ready, on_end

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more connections, end what runs, and wait for the streams that tell of it."""
        for server in self.servers:
            server.close()
        await self._on_end()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End serving at a signal. uvicorn would raise it again before the engines are closed."""
        loop = asyncio.get_running_loop()
        for stop_signal in STOP_SIGNALS:
            loop.add_signal_handler(stop_signal, self.handle_exit, stop_signal, None)
        try:
            yield
        finally:
            for stop_signal in STOP_SIGNALS:
                loop.remove_signal_handler(stop_signal)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_ready()


class GuardedProtocol(H11Protocol):
    """A connection with time limits. A dropped client can return: its events are read again from the log."""

    header_limit = HEADER_LIMIT
    reader_limit = READER_LIMIT
    _waiting: asyncio.TimerHandle | None = None
    _stuck: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Start the time limit of the first request."""
        super().connection_made(transport)
        self._waiting = self.loop.call_later(self.header_limit, self._drop)

    def handle_events(self) -> None:
        """Parse more input. The time limit runs between requests, until the headers are complete."""
        before = _get_cycle(self)
        super().handle_events()
        if _get_cycle(self) is not before or self.transport.is_closing() or self.transport.get_protocol() is not self:
            self._stop_waiting()
        elif self._waiting is None and (before is None or before.response_complete):
            self._waiting = self.loop.call_later(self.header_limit, self._drop)

    def pause_writing(self) -> None:
        """Watch a reader that lags behind its output buffer."""
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        """Stop watching a reader that has caught up."""
        super().resume_writing()
        self._stop_stuck()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers of a closed connection."""
        self._stop_waiting()
        self._stop_stuck()
        super().connection_lost(exc)

    def _watch_reader(self) -> None:
        self._stop_stuck()
        buffer_size = self.transport.get_write_buffer_size()
        self._stuck = self.loop.call_later(self.reader_limit, self._check_reader, buffer_size)

    def _check_reader(self, before: int) -> None:
        """Drop a reader that took too little since the last check; `before`: the buffer size then, in bytes."""
        if before - self.transport.get_write_buffer_size() < LEAST_READ:
            self.transport.abort()
        else:
            self._watch_reader()

    def _drop(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _stop_stuck(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None


def _get_cycle(connection: H11Protocol) -> Any:
    """Return the current or last request, None before the first, whatever uvicorn's types declare."""
    return connection.cycle
