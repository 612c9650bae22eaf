"""The server: a socket, uvicorn over it, and the engines behind it, until a signal ends it."""

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

from core.errors import ConfigError
from core.transports.engines import Engines
from core.transports.http.access import AccessRules, Tokens
from core.transports.http.app import PAGE_PATHS
from core.transports.http.connection import MAX_HEADERS, GuardedProtocol
from core.transports.http.guard import Application
from core.transports.http.web.routes import TERMINALS

MAX_CONNECTIONS: Final = 2_000
KEEP_ALIVE: Final = 30  # seconds
MAX_FRAME: Final = 16 * 1024 * 1024  # bytes of a message of a WebSocket
CLOSE_LIMIT: Final = 3  # seconds for streams that are open when the server ends
STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
BACKLOG: Final = 512


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
