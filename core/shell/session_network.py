"""The network that a session's commands share, and the ports of it that the user opened on this machine.

Commands, jobs, the user's own commands, MCP servers and hosted agents of a session reach each other on one loopback,
which no other session shares. Nothing of it can be reached from outside until the user opens a port: then this program
listens at the same port of this machine's loopback, or at a free one if that is taken, and forwards every connection.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable, Collection, Iterable
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from msgspec.structs import replace

from core.errors import CommandRejected, ToolFailed
from core.processes import SocketOwner, find_socket_owners
from core.protocol.events import AnyEvent, Notice, OpenPort, PortsChanged
from core.sandbox.box import Box, BoxRequest, BoxService, Tier
from core.sandbox.inside.messages import PROXY_PORT
from core.sandbox.network import ListeningPort, SharedNetwork
from core.sandbox.proxy import close_writer, relay_streams
from core.tasks import TaskOwner

_LOOPBACKS: Final = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
_BACKLOG: Final = 64
_UNKNOWN_OWNER: Final = SocketOwner("", frozenset())
MAX_COMMAND: Final = 100  # characters of the command line of a process that listens
PORT_IN_USE: Final = "localhost:{} is not offered to commands: a process of this session listens there."


class BoxFinder(Protocol):
    """The part of a `BoxSource` that is needed here."""

    async def find(self) -> Box | None: ...


class SessionNetwork:
    """The network of one session, opened with the first command that others may want to reach. `emit` is for events
    that belong to no turn."""

    def __init__(self, boxes: BoxFinder, emit: Callable[[AnyEvent], None]) -> None:
        self._boxes, self._emit = boxes, emit
        self._network: SharedNetwork | None = None
        self._opening: asyncio.Task[SharedNetwork | None] | None = None
        self._is_refused = False  # the machine has refused it, which was said
        self._proxies: dict[Path, int] = {}  # the ports at which further proxies listen inside
        self._services: dict[int, bytes] = {}
        self._listening: dict[int, SocketOwner] = {}  # the processes that listen, by port
        self._has_changed = asyncio.Event()  # since somebody began to wait for a port
        self._forwards: dict[int, PortForward] = {}
        self._published: tuple[OpenPort, ...] = ()
        self._tasks = TaskOwner()
        self._changing = asyncio.Lock()

    # joining

    async def join(self, request: BoxRequest, *, is_lasting: bool = True, login: str = "") -> BoxRequest:
        """Return the request of a command in this network, in which its proxy and its services listen. Where the tier
        has none, the request stays as it is. `is_lasting` False: nobody can want to reach the command, so the network
        is not opened for it alone, which takes as long as a command. `login`: what the proxy expects (`name:secret`),
        which then gets a port of its own, as it may reach hosts that the session's commands may not."""
        request = replace(request, proxy_login=login)
        network = await self._open() if is_lasting else self._network
        if network is None or not network.is_open:
            return request
        try:
            async with self._changing:
                port = PROXY_PORT
                if request.proxy is not None:
                    port = await self._offer_proxy(network, request.proxy, has_own_port=bool(login))
                    await self._offer_services(network, request.proxy, request.services)
        except (OSError, TimeoutError) as error:
            raise ToolFailed(f"The network of the session's commands failed: {error}.") from None
        return replace(request, network=network, proxy_port=port)

    async def _open(self) -> SharedNetwork | None:
        """Return the network, opened if it is not, or has ended; None: there can be none."""
        if self._is_refused or (self._network is not None and self._network.is_open):
            return self._network
        if self._opening is None or self._opening.done():
            self._opening = asyncio.create_task(self._open_once(), name="opening the network")
        return await asyncio.shield(self._opening)

    async def _open_once(self) -> SharedNetwork | None:
        box = await self._boxes.find()
        self._proxies.clear()
        self._services.clear()
        try:
            self._network = await box.open_network(self._handle_ports) if box is not None else None
        except ToolFailed as problem:
            hint = "Each command has a loopback of its own, so they don't reach each other's servers."
            self._emit(Notice(level="warning", message=problem.message, hint=hint))
            self._network, self._is_refused = None, True
        return self._network

    async def _offer_proxy(self, network: SharedNetwork, proxy: Path, *, has_own_port: bool) -> int:
        if proxy not in self._proxies:
            self._proxies[proxy] = await network.listen(0 if has_own_port else PROXY_PORT, proxy)
        return self._proxies[proxy]

    async def _offer_services(self, network: SharedNetwork, proxy: Path, services: Iterable[BoxService]) -> None:
        """Listen at the ports of the services that are granted now, and at no other service's."""
        wanted = {service.port: service.head for service in services if service.port}
        for port in self._services.keys() - wanted.keys():
            del self._services[port]
            await network.close_port(port)
        for port in wanted.keys() - self._services.keys():
            try:
                await network.listen(port, proxy, wanted[port])
            except OSError:
                self._emit(Notice(level="warning", message=PORT_IN_USE.format(port)))
            else:
                self._services[port] = wanted[port]

    # ports

    def _handle_ports(self, ports: tuple[ListeningPort, ...]) -> None:
        self._tasks.spawn(self._publish_listening(ports), name="naming the listeners")

    async def _publish_listening(self, ports: tuple[ListeningPort, ...]) -> None:
        owners = await asyncio.to_thread(find_socket_owners, {port.inode for port in ports}) if ports else {}
        self._listening = {port.port: owners.get(port.inode, _UNKNOWN_OWNER) for port in ports}
        self._has_changed.set()
        self._publish()

    def list_ports(self, pid: int) -> frozenset[int]:
        """Return the ports at which a process or its descendants listen; none for 0."""
        return frozenset(port for port, owner in self._listening.items() if pid in owner.line)

    async def wait_for_ports(self, ports: Collection[int], pid: int) -> None:
        """Wait until a process or its descendants listen at all these ports."""
        while not self.list_ports(pid).issuperset(ports):
            self._has_changed.clear()
            await self._has_changed.wait()

    def _publish(self) -> None:
        """Emit the ports if they have changed."""
        numbers = sorted({*self._listening, *self._forwards})
        ports = tuple(
            OpenPort(
                port=number,
                command=self._listening.get(number, _UNKNOWN_OWNER).command[:MAX_COMMAND],
                is_listening=number in self._listening,
                address=self._forwards[number].address if number in self._forwards else "",
            )
            for number in numbers
        )
        if ports != self._published:
            self._published = ports
            self._emit(PortsChanged(ports=ports))

    def check_port(self, port: int, tier: Tier) -> None:
        """Raise `CommandRejected` unless a process of the session listens at the port."""
        if tier.has_open_network:
            raise CommandRejected(
                "commands use this machine's own network here.",
                hint=f"Open http://localhost:{port} directly.",
                code="port_refused",
            )
        if port not in self._listening:
            known = ", ".join(map(str, sorted(self._listening)))
            hint = f"These are listening: {known}." if known else "No command of this session is listening."
            raise CommandRejected(f"nothing listens at port {port}.", hint=hint, code="port_unknown")

    async def open_port(self, port: int) -> None:
        """Forward a port to this machine. Raises `ToolFailed` if this machine has no port for it."""
        if port not in self._forwards and self._network is not None:
            forward = PortForward(port, partial(self._connect, port))
            await forward.open()
            self._forwards[port] = forward
            self._publish()

    async def close_port(self, port: int) -> None:
        """Stop forwarding a port, and end its connections."""
        forward = self._forwards.pop(port, None)
        if forward is not None:
            await forward.close()
            self._publish()

    async def _connect(self, port: int) -> socket.socket:
        if self._network is None:
            raise ConnectionRefusedError
        return await self._network.connect(port)

    async def close(self) -> None:
        for port in [*self._forwards]:
            await self.close_port(port)
        if self._opening is not None:
            await asyncio.wait({self._opening})
        network, self._network = self._network, None
        if network is not None:
            network.close()
        await self._tasks.cancel()


class PortForward:
    """A port of this machine's loopback whose connections lead to a port inside. `connect` opens one there."""

    def __init__(self, port: int, connect: Callable[[], Awaitable[socket.socket]]) -> None:
        self._port, self._connect = port, connect
        self._servers: list[asyncio.Server] = []
        self._connections = TaskOwner()
        self.address = ""

    async def open(self) -> None:
        """Listen at the same port, else at a free one. Raises `ToolFailed`."""
        listening = listen_on_loopback(self._port) or listen_on_loopback(0)
        if not listening:
            raise ToolFailed("No port of this machine's loopback is free.")
        self._servers = [await asyncio.start_server(self._serve, sock=sock) for sock in listening]
        self.address = f"http://localhost:{listening[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with self._connections.include_current_task():
            await self._serve_client(reader, writer)

    async def _serve_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inside = await self._connect()
            their_reader, their_writer = await asyncio.open_connection(sock=inside)
            try:
                await relay_streams(reader, writer, their_reader, their_writer, idle_seconds=None)
            finally:
                await close_writer(their_writer)
        except (OSError, TimeoutError):
            pass  # nothing listens there now, so the client sees its connection end
        except asyncio.CancelledError:
            return
        finally:
            await close_writer(writer)

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        await self._connections.cancel()


def listen_on_loopback(port: int) -> list[socket.socket]:
    """Listen at a port of both loopback addresses, or of the first alone on a machine without IPv6; [] if it is taken.
    0: a free port."""
    listening: list[socket.socket] = []
    for family, address in _LOOPBACKS:
        number = listening[0].getsockname()[1] if listening else port
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
        except OSError:
            continue
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind((address, number))
            sock.listen(_BACKLOG)
        except OSError as error:
            sock.close()
            if error.errno != errno.EADDRNOTAVAIL:  # else the machine has no such address
                for other in listening:
                    other.close()
                return []
        else:
            listening.append(sock)
    return listening
