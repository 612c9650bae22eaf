"""A network that several boxes share: a loopback of their own, in a namespace that a process of ours holds open.

This is the engine's side of `core.sandbox.inside.network_process`: it starts the process, hands its namespaces to
boxes, and asks it for listeners, for connections to ports inside, and for the ports that are listening.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import errno
import marshal
import os
import socket
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from core.errors import ToolFailed

_START_SECONDS = 5.0
_ORDER_SECONDS = 5.0
_MAX_PACKET = 1 << 16


class ListeningPort(Struct, frozen=True):
    """A TCP port that is listening in the network; `inode`: the number of a socket that listens there."""

    port: int
    inode: int


class SharedNetwork:
    """One network. `on_ports` is called with the ports that are listening whenever these change."""

    def __init__(self, command: Sequence[str], on_ports: Callable[[tuple[ListeningPort, ...]], None]) -> None:
        """`command` runs the process; the number of its control socket's descriptor is the placeholder `{control}`."""
        self._on_ports = on_ports
        self._orders: dict[int, asyncio.Future[tuple[int, int]]] = {}
        self._count = self._box_count = 0
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.namespaces: tuple[int, ...] = ()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setblocking(False)
        try:
            self._process = subprocess.Popen(
                [word.replace("{control}", str(theirs.fileno())) for word in command],
                env={},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        except OSError as error:
            self._control.close()
            raise ToolFailed(f"The network of the sandbox could not be started: {error.strerror}.") from error
        finally:
            theirs.close()
        asyncio.get_running_loop().add_reader(self._control, self._read_report)

    async def wait_until_ready(self) -> None:
        """Wait until boxes can join. Raises `ToolFailed`, after which the network is closed."""
        try:
            async with asyncio.timeout(_START_SECONDS):
                await asyncio.shield(self._ready)
        except TimeoutError:
            self.close()
            raise ToolFailed("The network of the sandbox was not ready in time.") from None
        except OSError as error:
            self.close()
            raise ToolFailed(f"The network of the sandbox could not be set up: {error.strerror}.") from None

    @property
    def is_open(self) -> bool:
        return bool(self.namespaces)

    async def listen(self, port: int, proxy: Path, head: bytes = b"") -> int:
        """Forward connections to a port inside (0: a free one) to a proxy's unix socket, after `head`. Returns the
        port. Raises OSError: the port is in use, or the network is gone."""
        _, number = await self._order("listen", port, os.fsencode(proxy), head)
        return number

    async def close_port(self, port: int) -> None:
        """Stop listening at a port. Raises OSError if the network is gone."""
        await self._order("close", port)

    async def connect(self, port: int) -> socket.socket:
        """Connect to a port inside. Returns a connected socket that does not block. Raises OSError."""
        descriptor, _ = await self._order("connect", port)
        return socket.socket(fileno=descriptor)

    def add_box(self) -> None:
        """Note that a box has joined. Ports are watched while one is there."""
        self._box_count += 1
        if self._box_count == 1:
            self._watch(is_on=True)

    def remove_box(self) -> None:
        """Note that a box has ended."""
        self._box_count -= 1
        if not self._box_count:
            self._watch(is_on=False)
            self._on_ports(())

    def _watch(self, *, is_on: bool) -> None:
        with contextlib.suppress(OSError):
            self._control.send(marshal.dumps(("watch", 0, int(is_on))))

    async def _order(self, name: str, number: int, *details: bytes) -> tuple[int, int]:
        """Give an order; return the descriptor (-1: none) and the number of its answer. Raises OSError."""
        if not self.is_open:
            raise ConnectionResetError(errno.ECONNRESET, "it is closed")
        self._count += 1
        identity = self._count
        answer: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()
        self._orders[identity] = answer
        try:
            self._control.send(marshal.dumps((name, identity, number, *details)))
            async with asyncio.timeout(_ORDER_SECONDS):
                return await answer
        finally:
            del self._orders[identity]

    def _read_report(self) -> None:
        try:
            packet, rights, _, _ = self._control.recvmsg(_MAX_PACKET, socket.CMSG_SPACE(4 * 2), socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        except OSError:
            packet, rights = b"", []
        descriptors = array.array("i")
        for _, _, content in rights:
            descriptors.frombytes(content)
        if not packet:
            self._fail()
            return
        name, identity, content = marshal.loads(packet)
        match name:
            case "ready":
                self.namespaces = tuple(descriptors)
                if not self._ready.done():
                    self._ready.set_result(None)
            case "ports":
                self._on_ports(tuple(ListeningPort(port, inode) for port, inode in content))
            case _:
                self._answer(identity, content, list(descriptors), is_failure=name == "failed")

    def _answer(self, identity: int, number: int, descriptors: list[int], *, is_failure: bool) -> None:
        problem = OSError(number, os.strerror(number)) if is_failure else None
        answer = self._orders.get(identity)
        if problem is not None and not identity and not self._ready.done():
            self._ready.set_exception(problem)
        elif answer is None or answer.done():
            for descriptor in descriptors:  # whoever asked waits no more
                os.close(descriptor)
        elif problem is not None:
            answer.set_exception(problem)
        else:
            answer.set_result((descriptors[0] if descriptors else -1, number))

    def _fail(self) -> None:
        """Let everything fail that waits: the process is gone."""
        problem = ConnectionResetError(errno.ECONNRESET, "it has ended")
        for answer in self._orders.values():
            if not answer.done():
                answer.set_exception(problem)
        if not self._ready.done():
            self._ready.set_exception(problem)
        self.close()

    def close(self) -> None:
        """End the network. Boxes in it keep their loopback, from which nothing is forwarded any more. Safe to call
        twice."""
        if self._control.fileno() < 0:
            return
        asyncio.get_running_loop().remove_reader(self._control)
        self._control.close()
        for descriptor in self.namespaces:
            os.close(descriptor)
        self.namespaces = ()
        self._process.kill()
        self._process.wait()
