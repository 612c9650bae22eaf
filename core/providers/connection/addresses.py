"""The route to a model server: loopback, or the proxy that the environment names.

A server on this machine is never reached through a proxy, whatever the environment says.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from core.clock import monotonic
from core.secrets import redact

FRESH_SECONDS: Final = 5.0
PROBE_SECONDS: Final = 0.2
_listening: dict[int, tuple[float, bool]] = {}


class NamedProxy(Struct, frozen=True):
    """A proxy and the environment variable that names it."""

    variable: str
    address: str

    def __str__(self) -> str:
        return f"the proxy of {self.variable} ({redact(self.address)})"


def is_loopback(url: str) -> bool:
    """Return True if the address is a loopback address."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_listening(port: int) -> bool:
    """Return True if something listens on a port of this machine, as of some seconds ago."""
    now, (at, is_open) = monotonic(), _listening.get(port, (0.0, False))
    if now - at > FRESH_SECONDS or not at:
        with socket.socket() as probe:
            probe.settimeout(PROBE_SECONDS)
            is_open = probe.connect_ex(("127.0.0.1", port)) == 0
        _listening[port] = (now, is_open)
    return is_open


def find_proxy(url: str, environment: Mapping[str, str]) -> NamedProxy | None:
    """Return the proxy that a request to an address goes through; None: the connection is direct.

    The variables are those that httpx reads (https://www.python-httpx.org/environment_variables/).
    """
    parts = urlsplit(url)
    exempt = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    if is_loopback(url) or any(_matches(name.strip(), parts.hostname or "") for name in exempt.split(",")):
        return None
    for name in (f"{parts.scheme}_proxy", "all_proxy"):
        for variable in (name, name.upper()):
            if address := environment.get(variable):
                return NamedProxy(variable, address)
    return None


def _matches(name: str, host: str) -> bool:
    """Return True if an entry of NO_PROXY covers a host: `*`, the host itself, or a parent domain."""
    return name == "*" or (name != "" and f".{host}".endswith(f".{name.lstrip('.').lower()}"))
