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
    """A socket that accepts in the box, the head that begins its connections to the proxy, and the descriptor of the
    proxy's socket."""

    def __init__(self, listening: _socket.socket, head: bytes = b"", proxy: int = messages.PROXY) -> None:
        self.listening, self.head, self.proxy = listening, head, proxy
        listening.setblocking(False)


def open_listeners(services: list[tuple[int, bytes, bytes]], *, has_own_network: bool) -> list[Listener]:
    """Open the listeners of the box: for the proxy itself, and for every service (port or path, and head). Those at
    ports are opened by the network's own process where the box shares it (`has_own_network` False)."""
    listeners = [Listener(listen_on_port(messages.PROXY_PORT))] if has_own_network else []
    for port, path, head in services:
        if not port:
            listeners.append(Listener(_listen_on_path(path), head))
        elif has_own_network:
            listeners.append(Listener(listen_on_port(port), head))
    return listeners


def listen_on_port(port: int) -> _socket.socket:
    """Listen on a port of the loopback; 0: a free one. Raises OSError."""
    listening = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    listening.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
        listening.listen(_BACKLOG)
    except OSError:
        listening.close()
        raise
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
    forwarder = Forwarder()
    for listener in listeners:
        forwarder.add(listener)
    while True:
        forwarder.forward()


class Forwarder:
    """Forwards the connections of its listeners to the proxy."""

    def __init__(self) -> None:
        self._accepting: dict[int, Listener] = {}
        self._connections: list[_Connection] = []

    def add(self, listener: Listener) -> None:
        self._accepting[listener.listening.fileno()] = listener

    def remove(self, listener: Listener) -> None:
        """Accept no more connections; those that exist go on."""
        del self._accepting[listener.listening.fileno()]

    def forward(self, watched: int = -1, timeout_ms: int | None = None) -> bool:
        """Wait until something can be forwarded, and forward it. Returns True if the descriptor `watched` is ready to
        be read."""
        interests: dict[int, int] = dict.fromkeys(self._accepting, select.POLLIN)
        if watched >= 0:
            interests[watched] = select.POLLIN
        readers: dict[int, _Flow] = {}
        writers: dict[int, _Flow] = {}
        flows = (flow for connection in self._connections for flow in connection.flows if not flow.is_closed)
        for flow in flows:
            end, event = (flow.sink, select.POLLOUT) if flow.buffer else (flow.source, select.POLLIN)
            (writers if flow.buffer else readers)[end.fileno()] = flow
            interests[end.fileno()] = interests.get(end.fileno(), 0) | event
        poll = select.poll()
        for descriptor, events in interests.items():
            poll.register(descriptor, events)
        ready = dict(poll.poll(timeout_ms))
        for descriptor, events in ready.items():
            if descriptor in self._accepting:
                self._accept(self._accepting[descriptor])
            if descriptor in writers and events & ~select.POLLIN:
                writers[descriptor].write()
            if descriptor in readers and events & ~select.POLLOUT:
                readers[descriptor].read()
        self._connections = [connection for connection in self._connections if not connection.close_if_done()]
        return watched in ready

    def _accept(self, listener: Listener) -> None:
        """Accept a connection; close it immediately if the proxy is gone, so that its client notices."""
        try:
            descriptor = listener.listening._accept()[0]  # type: ignore[attr-defined]  # what `accept` calls
            client = _socket.socket(fileno=descriptor)
        except OSError:
            return
        proxy = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            proxy.connect(f"/proc/self/fd/{listener.proxy}")
        except OSError:
            client.close()
            proxy.close()
            return
        client.setblocking(False)
        proxy.setblocking(False)
        self._connections.append(_Connection(client, proxy, listener.head))
