"""A web of hosts on loopback: their names and addresses are public, their packets stay on this machine.

What the guard of the program refuses is refused before anything is dialled, so `dialled` is what would have gone out.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_address

import httpcore2

from core.sandbox.addresses import IPAddress
from core.web.network import GuardedNetwork, connect_directly
from tests.support.loopback_server import LoopbackServer

PUBLIC = "93.184.215.14"
# A path's answer: its status, its header lines and its body.
Reply = tuple[int, dict[str, str], bytes]


def page(body: str, *, media_type: str = "text/html; charset=utf-8", **headers: str) -> Reply:
    return 200, {"Content-Type": media_type, **headers}, body.encode()


def moved(to: str, status: int = 302) -> Reply:
    return status, {"Location": to}, b""


def packed(data: bytes) -> Reply:
    return 200, {"Content-Type": "text/plain", "Content-Encoding": "gzip"}, gzip.compress(data)


class WebHost(LoopbackServer):
    """Answers by `host/path`, else by path. `addresses` by name, one list for each time that the name is resolved; the
    last one holds on. `endless`: a path whose body never ends."""

    def __init__(
        self, replies: Mapping[str, Reply], addresses: Mapping[str, Sequence[Sequence[str]]] | None = None
    ) -> None:
        self.replies = dict(replies)
        self.addresses = {
            name: [list(address_list) for address_list in lists] for name, lists in (addresses or {}).items()
        }
        self.endless = b""
        self.requests: list[str] = []
        self.dialled: list[str] = []
        self.resolved: list[str] = []

    def network(self) -> GuardedNetwork:
        """The program's own network, above another resolver and connector."""
        return GuardedNetwork(self._resolve, self._connect)

    async def _resolve(self, host: str) -> list[IPAddress]:
        self.resolved.append(host)
        lists = self.addresses.get(host, [[PUBLIC]])
        host_addresses = lists.pop(0) if len(lists) > 1 else lists[0]
        return [ip_address(address) for address in host_addresses]

    async def _connect(self, address: str, port: int) -> httpcore2.AsyncNetworkStream:
        self.dialled.append(f"{address}:{port}")
        if ip_address(
            address
        ).is_loopback:  # the guard has let it through: a server that the user's configuration names
            return await connect_directly(address, port)
        return await httpcore2.AnyIOBackend().connect_tcp("127.0.0.1", self.port, timeout=30.0)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        path = head.split(" ")[1]
        host = next(line.partition(": ")[2] for line in head.split("\r\n") if line.lower().startswith("host:"))
        self.requests.append(f"{host}{path}")
        if self.endless and path == "/endless":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
            while True:
                writer.write(self.endless)
                await writer.drain()
        status, headers, body = self.replies.get(f"{host}{path}", self.replies.get(path, (404, {}, b"")))
        lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers.items())]
        lines += [f"Content-Length: {len(body)}"] if "Content-Length" not in headers else []
        writer.write("\r\n".join((*lines, "", "")).encode() + body)


def collect(addresses: list[str]) -> Callable[[object], object]:
    """An approval that says yes to every address and notes it."""

    async def approve(address: object) -> None:
        addresses.append(str(address))

    return approve
