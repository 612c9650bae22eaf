"""A remote server's connection over HTTP: its address and headers with their variables, and the two streams of the SDK.

A remote server is outside of every box: it is told nothing of the project but what calls hand it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, Final

import httpx2
from msgspec import Struct

from core.errors import ConfigError, ToolFailed, WebFailed
from core.mcp.remote.guarded_http import GuardedTransport, HttpFault, build_server_network, is_inner_name
from core.mcp.remote.logins import LoginStore
from core.mcp.remote.stored_login import StoredLogin
from core.mcp.server_config import ServerConfig, Variables
from core.mcp.wire.sdk_connection import open_http_streams
from core.secrets import register_secret
from core.web.address import WebAddress, parse_address

CONNECT_SECONDS: Final = 15.0
NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
_OWN_HEADERS: Final = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept-encoding"})


class RemoteTarget(Struct, frozen=True):
    """The place of a server. `inner`: the hosts that may be in an inner network."""

    address: WebAddress
    headers: Mapping[str, str]
    inner: frozenset[str]


def build_target(
    config: ServerConfig, variables: Variables, command_headers: Mapping[str, str] = NO_HEADERS
) -> RemoteTarget:
    """Build it from an entry, and the headers that its command printed. Raises `ConfigError`."""
    try:
        address = parse_address(variables.expand(config.url))
    except WebFailed as problem:
        raise ConfigError(f'its "url" can\'t be used: {problem.message}') from None
    headers = {}
    for name, value in ({**variables.expand_all(config.headers), **command_headers}).items():
        if name.lower() in _OWN_HEADERS or not (name.isascii() and name.replace("-", "").isalnum()):
            raise ConfigError(f"its header {name!r} can't be set")
        if not value.isascii() or not value.isprintable():
            raise ConfigError(f"its header {name!r} holds what no header may: it has to be a line in ASCII")
        if value != config.headers.get(name):
            register_secret(value)
            register_secret(value.rpartition(" ")[2])
        headers[name] = value
    is_named = not config.is_project or is_inner_name(address)
    return RemoteTarget(address, headers, frozenset({address.host} if is_named else ()))


class HttpLink:
    """One connection. `problem`: why it is no more, "" = it is. `auth`: what logs it in; None: the stored login, unless
    the entry says itself what authorizes it. `on_loss` is called when no answer can come any more."""

    def __init__(self, config: ServerConfig, target: RemoteTarget, auth: httpx2.Auth | None = None) -> None:
        self._config, self._target = config, target
        is_authorized = any(name.lower() == "authorization" for name in target.headers)
        self._auth = auth or (None if is_authorized else StoredLogin(LoginStore(str(target.address))))
        self._transport: GuardedTransport | None = None
        self._closed = ""
        self.on_loss: Callable[[], None] = lambda: None

    @property
    def fault(self) -> HttpFault | None:
        """The fault of the last request, None = it went well."""
        return self._transport.fault if self._transport is not None else None

    @property
    def problem(self) -> str:
        fault = self.fault
        return self._closed or (self._describe(fault) if fault is not None else "")

    def _describe(self, fault: HttpFault) -> str:
        command = f"agent-tui mcp login {self._config.name}"
        if fault.status == 401 and self._auth is not None:
            return f"{fault.text.removesuffix('.')}: {command}"
        if fault.status == 403 and isinstance(self._auth, StoredLogin) and self._auth.missed:
            return f"{self._target.address.host} wants a login with more rights ({self._auth.missed}): {command}"
        return fault.text

    def close(self, reason: str) -> None:
        """Note why it is of no use any more."""
        self._closed = self._closed or reason

    def is_watched(self, request: httpx2.Request) -> bool:
        """True if the status of this request tells how the server is."""
        is_here = str(request.url) == str(self._target.address)
        if self._config.transport == "sse":
            return is_here or request.method == "POST"
        return is_here and request.method == "POST"

    def _note_refusal(self, request: httpx2.Request) -> None:
        """Over SSE the SDK sends nothing more when a message was not taken, and tells nobody who waits."""
        if self._config.transport == "sse" and request.method == "POST":
            self.on_loss()

    @asynccontextmanager
    async def open_streams(self) -> AsyncIterator[tuple[Any, Any]]:
        """Return the two streams that the SDK reads from and writes to."""
        target = self._target
        context = await asyncio.to_thread(ssl.create_default_context)
        network = build_server_network(target.inner)
        self._transport = transport = GuardedTransport(network, context, self.is_watched, self._note_refusal)
        client = httpx2.AsyncClient(
            transport=transport,
            headers={"User-Agent": "agent-tui", "Accept-Encoding": "identity", **target.headers},
            auth=self._auth,
            timeout=httpx2.Timeout(CONNECT_SECONDS, read=None),
            trust_env=False,
        )
        async with open_http_streams(str(target.address), client, is_sse=self._config.transport == "sse") as streams:
            yield streams

    def build_error(self, message: str) -> ToolFailed:
        """Build the error of a connection that could not be used."""
        fault = self.fault
        return ToolFailed(self._describe(fault), hint=fault.hint) if fault is not None else ToolFailed(message)
