"""The box's only way out: connections to a port on its loopback go on to the app's proxy (SAFETY D31).

The box has no network. A process of ours inside accepts on 127.0.0.1 and connects, for each connection, to the unix
socket of the proxy, which it reaches by a descriptor (`/proc/self/fd/N`): no path leads there from inside. Bytes go to
and fro as they are; who may be reached, the proxy alone decides. Runs in `python -I -S`.
"""

from __future__ import annotations

import _socket
import os
import select
import signal

from core.sandbox import kernel, order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_PIECE = 65_536
_WAITING = 64


def listen() -> _socket.socket:
    listening = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    listening.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", order.PROXY_PORT))
    listening.listen(_WAITING)
    return listening


def start(listening: _socket.socket) -> int:
    """A process of its own that forwards until it is killed; answers with its pid."""
    pid = os.fork()
    if pid == 0:
        try:
            _forward(listening)
        finally:
            os._exit(1)
    listening.close()
    return pid


class _Flow:
    """One direction of a connection: what was read on one side and not yet taken on the other."""

    def __init__(self, source: _socket.socket, sink: _socket.socket) -> None:
        self.source, self.sink = source, sink
        self.held = b""
        self.ended = False

    def read(self) -> None:
        try:
            self.held = self.source.recv(_PIECE)
        except BlockingIOError:
            return
        except OSError:
            self.held = b""
        if not self.held:
            self._end()

    def write(self) -> None:
        try:
            self.held = self.held[self.sink.send(self.held) :]
        except BlockingIOError:
            return
        except OSError:
            self.held = b""
            self._end()

    def _end(self) -> None:
        self.ended = True
        for each, how in ((self.sink, _socket.SHUT_WR), (self.source, _socket.SHUT_RD)):
            try:
                each.shutdown(how)
            except OSError:
                continue


class _Connection:
    """A client inside and the proxy outside, with a flow each way."""

    def __init__(self, client: _socket.socket, proxy: _socket.socket) -> None:
        self._sockets = (client, proxy)
        self.flows = (_Flow(client, proxy), _Flow(proxy, client))

    def over(self) -> bool:
        if not all(flow.ended for flow in self.flows):
            return False
        for each in self._sockets:
            each.close()
        return True


def _forward(listening: _socket.socket) -> NoReturn:
    kernel.die_with_parent(signal.SIGKILL)
    kernel.forbid_inspection()
    os.closerange(0, order.PROXY)
    listening.setblocking(False)
    connections: list[_Connection] = []
    while True:
        _pass_on(listening, connections)
        connections = [each for each in connections if not each.over()]


def _pass_on(listening: _socket.socket, connections: list[_Connection]) -> None:
    """Wait until something can move, and move it."""
    wanted = {listening.fileno(): select.POLLIN}
    readers: dict[int, _Flow] = {}
    writers: dict[int, _Flow] = {}
    for flow in (flow for each in connections for flow in each.flows if not flow.ended):
        end, event = (flow.sink, select.POLLOUT) if flow.held else (flow.source, select.POLLIN)
        (writers if flow.held else readers)[end.fileno()] = flow
        wanted[end.fileno()] = wanted.get(end.fileno(), 0) | event
    poll = select.poll()
    for descriptor, events in wanted.items():
        poll.register(descriptor, events)
    for descriptor, events in poll.poll():
        if descriptor == listening.fileno():
            _accept(listening, connections)
            continue
        if descriptor in writers and events & ~select.POLLIN:
            writers[descriptor].write()
        if descriptor in readers and events & ~select.POLLOUT:
            readers[descriptor].read()


def _accept(listening: _socket.socket, connections: list[_Connection]) -> None:
    """A connection while the proxy is gone is closed at once: that is what its client has to learn."""
    try:
        client = _socket.socket(fileno=listening._accept()[0])  # type: ignore[attr-defined]  # what `accept` calls
    except OSError:
        return
    proxy = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        proxy.connect(f"/proc/self/fd/{order.PROXY}")
    except OSError:
        client.close()
        proxy.close()
        return
    client.setblocking(False)
    proxy.setblocking(False)
    connections.append(_Connection(client, proxy))
