"""Strict parsing of host names and addresses for the proxy, and the test for public addresses.

The proxy dials exactly the value that it checked; an ambiguous name is refused. Every address that a name resolves to
must be public, so that no name leads to an inner network.
"""

from __future__ import annotations

import ipaddress
import re

from msgspec import Struct

from core.patterns import compile_lazily

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
_LABEL = r"(?!-)[a-z0-9_-]{1,63}(?<!-)"
_NAME = compile_lazily(rf"{_LABEL}(?:\.{_LABEL})*")
_LONGEST = 253
_NUMBER = compile_lazily(r"\d+|0x[0-9a-f]*")
_PORT = compile_lazily(r"[1-9]\d{0,4}")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_ISATAP = frozenset((0x0000_5EFE, 0x0200_5EFE))  # above the last 32 bits, which are an IPv4 address (RFC 5214)
# Not public, though `ipaddress` of some Python versions says so: protocol assignments (192.0.0.192 is the metadata
# service of Oracle's cloud), the relays of 6to4, documentation, segment routing. The metadata service of Azure is
# 168.63.129.16, whose number is public.
_INNER = tuple(
    map(
        ipaddress.ip_network,
        ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32", "64:ff9b:1::/48", "3fff::/20", "5f00::/16"),
    )
)
_PRIVATE = tuple(
    map(
        ipaddress.ip_network,
        (
            *("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"),
            # Transparent proxies answer look-ups with addresses that nobody has: those of benchmarks and documents.
            *("198.18.0.0/15", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32"),
        ),
    )
)
# Metadata services of clouds hand out keys to whoever asks, and lie in private networks.
_METADATA = frozenset(map(ipaddress.ip_address, ("100.100.100.200", "fd00:ec2::254", "fd20:ce::254")))


class HostAndPort(Struct, frozen=True):
    """Destination of a request. `host` in lower case, without a trailing dot; an IPv6 address without brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_host_and_port(text: str, port: int | None = None) -> HostAndPort:
    """Parse `host:port`, or `host` if there is a default `port`. Raises ValueError with a sentence."""
    match = re.fullmatch(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::(?P<port>[^:]*))?", text)
    if match is None or not text.isascii():
        raise ValueError("The address is not of the form host:port.")
    if match["port"] is not None:
        if not _PORT.fullmatch(match["port"]) or int(match["port"]) > 65_535:
            raise ValueError("The port is not a number from 1 to 65535.")
        port = int(match["port"])
    if port is None:
        raise ValueError("The address has no port.")
    return HostAndPort(_parse_host(match["host"]), port)


def _parse_host(text: str) -> str:
    if text.startswith("["):
        return _spell(ipaddress.IPv6Address(text[1:-1]))
    host = text.lower().removesuffix(".")
    if (address := parse_ip_address(host)) is not None:
        return _spell(address)
    last = host.rpartition(".")[2]
    if len(host) > _LONGEST or not _NAME.fullmatch(host) or _NUMBER.fullmatch(last):
        raise ValueError("The host name is invalid.")
    return host


def _spell(address: IPAddress) -> str:
    """Return the canonical spelling of an address; mapped ones are spelled as in Python 3.13 under every Python."""
    ipv4_address = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return f"::ffff:{ipv4_address}" if ipv4_address is not None else str(address)


def parse_ip_address(host: str) -> IPAddress | None:
    """Parse an IP address; return None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def is_public(address: IPAddress) -> bool:
    """Test whether an address is on the public network.

    False for loopback, link-local, private, shared, reserved and multicast addresses, and for IPv6 forms of these.
    """
    if any(address in network for network in _INNER):
        return False
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        has_tail = address in _NAT64 or (int(address) >> 32) & 0xFFFFFFFF in _ISATAP
        if inner is None and has_tail:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
        if address.scope_id is not None or address.is_site_local:
            return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def is_private(address: IPAddress) -> bool:
    """Test whether an address is one of a private network that its user may open, or of a transparent proxy: no
    loopback or link-local address, and no metadata service of a cloud."""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address not in _METADATA and any(address in network for network in _PRIVATE)


def explain_inner(host: str, *, is_named: bool) -> str:
    """Explain why a host with an address that is not public is not reached. `is_named`: it is in
    `network.private_hosts`."""
    if is_named:
        return f"The host {host} is in network.private_hosts, but not all its addresses are in a private network."
    return f"The host {host} is not on the public network, and not in network.private_hosts of the user's settings."
