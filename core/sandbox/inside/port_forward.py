"""The box's only network: connections to its loopback and to named sockets are forwarded to our proxy.

The box has no network. A process of ours inside accepts on 127.0.0.1 and connects, for every connection, to the unix
socket of the proxy by a descriptor (`/proc/self/fd/N`), so the box has no path to it. Bytes are forwarded unchanged,
for a service of the machine after the head that names it; the proxy alone decides which targets are allowed. Runs in
`python -I -S -B`.
"""

from __future__ import annotations

import _socket
import contextlib
import os
import select
import signal

from core.sandbox.inside import kernel, messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_CHUNK = 65_536
_BACKLOG = 64


class Listener:
    """A socket that accepts in the box, and the head that begins its connections to the proxy."""

    def __init__(self, listening: _socket.socket, head: bytes = b"") -> None:
        self.listening, self.head = listening, head


def open_listeners(services: list[tuple[int, bytes, bytes]]) -> list[Listener]:
    """Open the listeners of the box: for the proxy itself, and for every service (port or path, and head)."""
    listeners = [Listener(_listen_on_port(messages.PROXY_PORT))]
    for port, path, head in services:
        listeners.append(Listener(_listen_on_port(port) if port else _listen_on_path(path), head))
    return listeners


def _listen_on_port(port: int) -> _socket.socket:
    listening = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    listening.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    listening.listen(_BACKLOG)
    return listening


def _listen_on_path(path: bytes) -> _socket.socket:
    """Listen on a path in the box's fresh directories, open to every user that the command may become."""
    directory = os.path.dirname(path)
    if not os.path.isdir(directory):
        os.mkdir(directory)
        os.chmod(directory, 0o1777)
    listening = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    listening.bind(path)
    os.chmod(path, 0o777)
    listening.listen(_BACKLOG)
    return listening


def start_forwarder(listeners: list[Listener]) -> int:
    """Start a process that forwards until it is killed; return its pid."""
    pid = os.fork()
    if pid == 0:
        try:
            _run_forwarder(listeners)
        finally:
            os._exit(1)
    for listener in listeners:
        listener.listening.close()
    return pid


class _Flow:
    """One direction of a connection, with a buffer of bytes that were read and are not written yet."""

    def __init__(self, source: _socket.socket, sink: _socket.socket) -> None:
        self.source, self.sink = source, sink
        self.buffer = b""
        self.is_closed = False

    def read(self) -> None:
        try:
            self.buffer = self.source.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            self.buffer = b""
        if not self.buffer:
            self._close()

    def write(self) -> None:
        try:
            self.buffer = self.buffer[self.sink.send(self.buffer) :]
        except BlockingIOError:
            return
        except OSError:
            self.buffer = b""
            self._close()

    def _close(self) -> None:
        self.is_closed = True
        for socket, direction in ((self.sink, _socket.SHUT_WR), (self.source, _socket.SHUT_RD)):
            with contextlib.suppress(OSError):
                socket.shutdown(direction)


class _Connection:
    """A client inside and the proxy outside, with a flow in both directions."""

    def __init__(self, client: _socket.socket, proxy: _socket.socket, head: bytes) -> None:
        self._sockets = (client, proxy)
        self.flows = (_Flow(client, proxy), _Flow(proxy, client))
        self.flows[0].buffer = head

    def close_if_done(self) -> bool:
        if not all(flow.is_closed for flow in self.flows):
            return False
        for socket in self._sockets:
            socket.close()
        return True


def _run_forwarder(listeners: list[Listener]) -> NoReturn:
    kernel.die_with_parent(signal.SIGKILL)
    kernel.forbid_inspection()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it serves a command that is being ended
    os.closerange(0, messages.PROXY)
    for listener in listeners:
        listener.listening.setblocking(False)
    accepting = {listener.listening.fileno(): listener for listener in listeners}
    connections: list[_Connection] = []
    while True:
        _forward_ready(accepting, connections)
        connections = [connection for connection in connections if not connection.close_if_done()]


def _forward_ready(accepting: dict[int, Listener], connections: list[_Connection]) -> None:
    interests = dict.fromkeys(accepting, select.POLLIN)
    readers: dict[int, _Flow] = {}
    writers: dict[int, _Flow] = {}
    for flow in (flow for connection in connections for flow in connection.flows if not flow.is_closed):
        end, event = (flow.sink, select.POLLOUT) if flow.buffer else (flow.source, select.POLLIN)
        (writers if flow.buffer else readers)[end.fileno()] = flow
        interests[end.fileno()] = interests.get(end.fileno(), 0) | event
    poll = select.poll()
    for descriptor, events in interests.items():
        poll.register(descriptor, events)
    for descriptor, events in poll.poll():
        if descriptor in accepting:
            _accept_connection(accepting[descriptor], connections)
            continue
        if descriptor in writers and events & ~select.POLLIN:
            writers[descriptor].write()
        if descriptor in readers and events & ~select.POLLOUT:
            readers[descriptor].read()


def _accept_connection(listener: Listener, connections: list[_Connection]) -> None:
    """Accept a connection; close it immediately if the proxy is gone, so that its client notices."""
    try:
        descriptor = listener.listening._accept()[0]  # type: ignore[attr-defined]  # what `accept` calls
        client = _socket.socket(fileno=descriptor)
    except OSError:
        return
    proxy = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        proxy.connect(f"/proc/self/fd/{messages.PROXY}")
    except OSError:
        client.close()
        proxy.close()
        return
    client.setblocking(False)
    proxy.setblocking(False)
    connections.append(_Connection(client, proxy, listener.head))
