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
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import uvicorn
from msgspec import Struct
from msgspec.structs import replace
from uvicorn.protocols.http.h11_impl import H11Protocol

from core.errors import ConfigError
from core.transports.engines import Engines
from core.transports.http.access import AccessRules, Tokens
from core.transports.http.app import PAGE_PATHS
from core.transports.http.guard import Application
from core.transports.http.web_routes import TERMINALS

HEADER_LIMIT: Final = 15.0  # seconds until a connection has said what it wants
READER_LIMIT: Final = 30.0  # seconds in which a reader that lags has to take so much:
LEAST_READ: Final = 32 * 1024  # bytes
MAX_HEADERS: Final = 32 * 1024  # bytes
MAX_CONNECTIONS: Final = 2_000
KEEP_ALIVE: Final = 30  # seconds
MAX_FRAME: Final = 16 * 1024 * 1024  # bytes of a message of a WebSocket
CLOSE_LIMIT: Final = 3  # seconds for streams that are open when the server ends
STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
BACKLOG: Final = 512


class GuardedProtocol(H11Protocol):
    """A connection with limits. Who is dropped can come back: events are read again from the log."""

    header_limit = HEADER_LIMIT
    reader_limit = READER_LIMIT
    _waiting: asyncio.TimerHandle | None = None
    _stuck: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Wait for the first request, but not for long."""
        super().connection_made(transport)
        self._waiting = self.loop.call_later(self.header_limit, self._drop)

    def handle_events(self) -> None:
        """Read on. Once the headers of a request are whole its route has the time, else the client has."""
        before = _get_cycle(self)
        super().handle_events()
        if _get_cycle(self) is not before or self.transport.is_closing() or self.transport.get_protocol() is not self:
            self._stop_waiting()
        elif self._waiting is None and (before is None or before.response_complete):
            self._waiting = self.loop.call_later(self.header_limit, self._drop)

    def pause_writing(self) -> None:
        """The reader lags: what was written for it waits here."""
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        """The reader has caught up."""
        super().resume_writing()
        self._stop_stuck()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the clocks of a connection that is gone."""
        self._stop_waiting()
        self._stop_stuck()
        super().connection_lost(exc)

    def _watch_reader(self) -> None:
        self._stop_stuck()
        buffer_size = self.transport.get_write_buffer_size()
        self._stuck = self.loop.call_later(self.reader_limit, self._check_reader, buffer_size)

    def _check_reader(self, before: int) -> None:
        """Drop a reader that took too little meanwhile."""
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
    """Return the request at work or the last one, None before the first, whatever uvicorn declares."""
    return connection.cycle


class ServerPlace(Struct, frozen=True, kw_only=True):
    """The place where a server listens: `host` and `port` (0 = any that is free), or `socket_path`."""

    host: str = "127.0.0.1"
    port: int = 0
    socket_path: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def check_reach(self) -> None:
        """Raise `ConfigError` for a place that other machines reach without TLS."""
        if self.socket_path is None and self.certificate is None and not is_loopback(self.host):
            raise ConfigError(
                f"other machines reach {self.host}, and what is said there could be read on the way.",
                hint="Give --tls-cert and --tls-key, or stay on 127.0.0.1 and come by ssh -L.",
                code="tls_missing",
            )


def is_loopback(host: str) -> bool:
    """True if only this machine reaches a host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def open_socket(server_place: ServerPlace) -> socket.socket:
    """Return the listening socket. Raises `ConfigError`."""
    try:
        if server_place.socket_path is not None:
            return _open_unix_socket(server_place.socket_path)
        family = socket.AF_INET6 if ":" in server_place.host else socket.AF_INET
        listening = socket.create_server((server_place.host, server_place.port), family=family, backlog=BACKLOG)
        # asyncio sets it for sockets that name their protocol alone; without it an answer waits 40 ms for an ACK
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except (OSError, OverflowError) as problem:
        address = server_place.socket_path or f"{server_place.host}:{server_place.port}"
        raise ConfigError(f"nothing can listen at {address}: {problem}.", code="address_refused") from problem


def _open_unix_socket(path: Path) -> socket.socket:
    """Return a socket that only its owner can reach, whatever the umask says."""
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
    server_place: ServerPlace,
    port: int,
    tokens: Tokens,
    *,
    origins: Iterable[str] = (),
    hosts: Iterable[str] = (),
    has_page: bool = False,
) -> AccessRules:
    """Return the rules of a server that listens at a port. `has_page`: it serves the page, which needs no token."""
    host_names = {host.lower() for host in hosts}
    if server_place.socket_path is not None:
        host_names |= {"localhost"}
    else:
        own_hosts = (
            ["127.0.0.1", "localhost", "[::1]"] if is_loopback(server_place.host) else [_bracket(server_place.host)]
        )
        host_names |= {f"{host}:{port}" for host in own_hosts}
        if port == (443 if server_place.certificate is not None else 80):
            host_names |= set(own_hosts)
    allowed_origins = frozenset(origin.rstrip("/").lower() for origin in origins)
    rules = AccessRules(tokens=tokens, hosts=frozenset(host_names), origins=allowed_origins)
    return replace(rules, public=PAGE_PATHS, ticketed=TERMINALS) if has_page else rules


def _bracket(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def build_url(server_place: ServerPlace, port: int) -> str:
    """Return where the server is, as one opens it."""
    scheme = "https" if server_place.certificate is not None else "http"
    return f"{scheme}://{_bracket(server_place.host)}:{port}/"


class HttpServer:
    """A server of an application over a listening socket. `on_ready`: requests are answered now."""

    def __init__(
        self,
        listening: socket.socket,
        application: Application,
        *,
        engines: Engines,
        server_place: ServerPlace,
        on_ready: Callable[[], None],
    ) -> None:
        self._listening, self._engines, self._place = listening, engines, server_place
        app: Any = application
        config = uvicorn.Config(
            app,
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
            ssl_certfile=server_place.certificate,
            ssl_keyfile=server_place.key,
        )
        self._server = _Server(config, on_ready)

    async def run(self) -> None:
        """Serve until the process is told to end, or `stop`; then the engines are closed."""
        try:
            await self._server.serve(sockets=[self._listening])
        finally:
            await self._engines.close()
            if self._place.socket_path is not None:
                self._place.socket_path.unlink(missing_ok=True)

    def stop(self) -> None:
        """Have `run` end soon."""
        self._server.should_exit = True


class _Server(uvicorn.Server):
    """uvicorn, which says when it is ready."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Have signals end the serving. uvicorn raises them again when it has ended, before the engines are closed."""
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
