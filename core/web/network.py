"""Connections to the public network only: names are resolved here, and the checked address is the one that is dialled.

A name with any address that is not public is refused, so that a page can't reach the user's inner network. The check is
part of the connector, so neither a redirect nor a second DNS answer evades it. TLS still verifies the name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

import httpcore2

from core.errors import WebFailed
from core.sandbox.addresses import HostAndPort, IPAddress, is_public, parse_ip_address
from core.sandbox.proxy import Resolver, resolve_host

DIAL_SECONDS: Final = 15.0

# Connects to an IP address and a port.
Connector = Callable[[str, int], Awaitable[httpcore2.AsyncNetworkStream]]
# True for a target that may have private addresses, because the user named it.
Admission = Callable[[HostAndPort], bool]


async def connect_directly(address: str, port: int) -> httpcore2.AsyncNetworkStream:
    """Connect to an address."""
    return await httpcore2.AnyIOBackend().connect_tcp(address, port, timeout=DIAL_SECONDS)


def admit_none(_: HostAndPort) -> bool:
    """Admit no private address."""
    return False


class GuardedNetwork(httpcore2.AsyncNetworkBackend):
    """The network of a connection pool. `resolve` and `connect` are for tests only. A target that `is_admitted` may
    have private addresses, and all of them are tried."""

    def __init__(
        self,
        resolve: Resolver = resolve_host,
        connect: Connector = connect_directly,
        *,
        is_admitted: Admission = admit_none,
    ) -> None:
        self._resolve, self._connect, self._is_admitted = resolve, connect, is_admitted

    def admit(self, admitted_target: HostAndPort) -> GuardedNetwork:
        """Return this network with `admitted_target` admitted."""
        return GuardedNetwork(self._resolve, self._connect, is_admitted=lambda target: target == admitted_target)

    def refuse_literal(self, target: HostAndPort) -> None:
        """Raise `WebFailed` for a literal address that could not be dialled in any case; names are checked when they
        are dialled."""
        ip_address = parse_ip_address(target.host)
        if ip_address is not None and not is_public(ip_address) and not self._is_admitted(target):
            raise _explain_inner(target.host)

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 (the signature is the library's)
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        *others, last = await self._find_addresses(host, is_admitted=self._is_admitted(HostAndPort(host, port)))
        for address in others:
            with suppress(OSError, httpcore2.NetworkError, httpcore2.TimeoutException):
                return await self._connect(str(address), port)
        return await self._connect(str(last), port)

    async def _find_addresses(self, host: str, *, is_admitted: bool) -> Sequence[IPAddress]:
        """Return the addresses to dial, at least one. A private address refuses a name that is not admitted."""
        ip_address = parse_ip_address(host)
        try:
            async with asyncio.timeout(DIAL_SECONDS):
                addresses = [ip_address] if ip_address is not None else await self._resolve(host)
        except (OSError, UnicodeError, TimeoutError):
            addresses = []
        if not addresses:
            raise WebFailed(f"The host {host} is not known.", hint="Check its spelling.", code="unreachable")
        if is_admitted:
            return addresses
        if not all(map(is_public, addresses)):
            raise _explain_inner(host)
        return addresses[:1]


def _explain_inner(host: str) -> WebFailed:
    return WebFailed(
        f"The host {host} is not on the public network; pages are fetched only from there.",
        hint="Use a command for a server on this machine.",
        code="refused_address",
    )
