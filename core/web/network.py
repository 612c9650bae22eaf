"""Connections to the public network only: names are resolved here, and the checked address is the one that is dialled.

A name with any address that is not public is refused, so that a page can't reach the user's inner network; private
addresses of hosts that the user's own settings name are reached. The check is part of the connector, so neither a
redirect nor a second DNS answer evades it. TLS still verifies the name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

import httpcore2

from core.errors import WebFailed
from core.sandbox.addresses import HostAndPort, IPAddress, explain_inner, is_private, is_public, parse_ip_address
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
    have any address, and all of them are tried; a host for which `is_private_host` is true may have private ones."""

    def __init__(
        self,
        resolve: Resolver = resolve_host,
        connect: Connector = connect_directly,
        *,
        is_admitted: Admission = admit_none,
        is_private_host: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._resolve, self._connect, self._is_admitted = resolve, connect, is_admitted
        self._is_private_host = is_private_host

    def admit(self, admitted_target: HostAndPort) -> GuardedNetwork:
        """Return this network with `admitted_target` admitted."""
        return GuardedNetwork(self._resolve, self._connect, is_admitted=lambda target: target == admitted_target)

    def refuse_literal(self, target: HostAndPort) -> None:
        """Raise `WebFailed` for a literal address that could not be dialled in any case; names are checked when they
        are dialled."""
        ip_address = parse_ip_address(target.host)
        if ip_address is not None and not self._is_admitted(target):
            self._check_reach(target.host, [ip_address])

    def _check_reach(self, host: str, addresses: Sequence[IPAddress]) -> None:
        """Raise `WebFailed` for a host with an address that may not be dialled."""
        is_named = self._is_private_host(host)
        if not all(is_public(address) or (is_named and is_private(address)) for address in addresses):
            raise WebFailed(
                explain_inner(host, is_named=is_named),
                hint="Use a command for a server on this machine.",
                code="refused_address",
            )

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
        self._check_reach(host, addresses)
        return addresses[:1]
