"""The network that the commands of a session share: a process of ours in a network namespace of its own.

The namespace has a loopback and nothing else, and boxes join it. The process holds it open, and does at the engine's
orders what can be done only inside: it listens at ports for the proxy and for services of the machine and forwards
connections to the proxy's unix socket, it connects to ports of commands, and it reports which ports are listening. It
runs in the machine's file system and never executes anything. Runs in `python -I -S -B`.
"""

from __future__ import annotations

import _socket
import array
import contextlib
import fcntl
import marshal
import os
import signal
import struct

from core.sandbox.inside import kernel
from core.sandbox.inside.port_forward import Forwarder, Listener, listen_on_port

TYPE_CHECKING = False  # typing itself takes longer to load than all the rest here
if TYPE_CHECKING:
    from typing import NoReturn

    NetworkOrder = (
        tuple[str, int, int]  # ("connect", id, port), ("watch", id, 0 or 1), ("close", id, port)
        | tuple[str, int, int, bytes, bytes]  # ("listen", id, port or 0 for any, path of the proxy's socket, head)
    )

_SET_FLAGS, _UP = 0x8914, 0x1  # SIOCSIFFLAGS, IFF_UP
_LISTENING = b"0A"  # the state of a socket in /proc/net/tcp
_LOOK_MS = 400
_LOOPBACKS = (_socket.AF_INET, "127.0.0.1"), (_socket.AF_INET6, "::1")
MAX_PORTS = 200


def main(control: int, is_prepared: int) -> NoReturn:
    """Serve until the engine's end of the socket is closed. `is_prepared`: the namespaces exist already, with
    their loopback."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    engine = _socket.socket(fileno=control)
    try:
        if not is_prepared:
            _enter_namespaces()
            bring_up_loopback()
        names = ("net",) if os.getuid() == 0 and not is_prepared else ("user", "net")
        namespaces = [os.open(f"/proc/self/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in names]
    except OSError as error:
        engine.send(marshal.dumps(("failed", 0, error.errno or 0)))
        os._exit(1)
    _send_descriptors(engine, ("ready", 0, 0), namespaces)
    for descriptor in namespaces:
        os.close(descriptor)
    kernel.forbid_inspection()
    _NetworkProcess(engine).serve()


def _enter_namespaces() -> None:
    """Enter a network namespace; root's belongs to its own user namespace, another user's to a new one."""
    user, group = os.getuid(), os.getgid()
    if user == 0:
        kernel.unshare(kernel.NEW_NETWORK)
        return
    kernel.unshare(kernel.NEW_USER | kernel.NEW_NETWORK)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        kernel.write_setting(f"/proc/self/{name}".encode(), text.encode())


def bring_up_loopback() -> None:
    probe = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    try:
        fcntl.ioctl(probe.fileno(), _SET_FLAGS, struct.pack("16sH14x", b"lo", _UP))
    finally:
        probe.close()


def _send_descriptors(engine: _socket.socket, report: tuple[str, int, int], descriptors: list[int]) -> None:
    rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    with contextlib.suppress(OSError):  # the engine may be gone
        engine.sendmsg([marshal.dumps(report)], rights)


class _NetworkProcess:
    def __init__(self, engine: _socket.socket) -> None:
        self._engine = engine
        self._forwarder = Forwarder()
        self._listeners: dict[int, Listener] = {}
        self._is_watching = False
        self._ports: list[tuple[int, int]] | None = None

    def serve(self) -> NoReturn:
        while True:
            is_ordered = self._forwarder.forward(self._engine.fileno(), _LOOK_MS if self._is_watching else None)
            if is_ordered:
                packet = self._engine.recv(65_536)
                if not packet:
                    os._exit(0)
                self._obey(marshal.loads(packet))
            if self._is_watching:
                self._report_ports()

    def _obey(self, order: NetworkOrder) -> None:
        name, identity, number, *details = order
        descriptors: list[int] = []
        try:
            if name == "connect":
                descriptors.append(_connect(number))
            elif name == "listen":
                path, head = details
                number = self._listen(number, path, head)
            elif name == "close":
                self._close(number)
            else:
                self._is_watching, self._ports = bool(number), None
            report = ("done", identity, number)
        except OSError as error:
            report = ("failed", identity, error.errno or 0)
        _send_descriptors(self._engine, report, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)

    def _listen(self, number: int, path: bytes, head: bytes) -> int:
        """Forward connections to a port (0: a free one) to the proxy's socket at `path`; return the port."""
        proxy = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            listener = Listener(listen_on_port(number), head, proxy)
        except OSError:
            os.close(proxy)
            raise
        port: int = listener.listening.getsockname()[1]
        self._listeners[port] = listener
        self._forwarder.add(listener)
        return port

    def _close(self, port: int) -> None:
        listener = self._listeners.pop(port, None)
        if listener is not None:
            self._forwarder.remove(listener)
            listener.listening.close()
            os.close(listener.proxy)

    def _report_ports(self) -> None:
        """Report the listening ports with the inodes of their sockets, if they have changed; our own ones aside."""
        ports = [(port, inode) for port, inode in list_listening_ports() if port not in self._listeners]
        if ports != self._ports:
            self._ports = ports
            with contextlib.suppress(OSError):
                self._engine.send(marshal.dumps(("ports", 0, ports[:MAX_PORTS])))


def _connect(port: int) -> int:
    """Connect to a port at 127.0.0.1, else at ::1; return the socket's descriptor. Raises OSError."""
    failure: OSError | None = None
    for family, address in _LOOPBACKS:
        try:
            connection = _socket.socket(family, _socket.SOCK_STREAM)
        except OSError as error:
            failure = failure or error
            continue
        try:
            connection.settimeout(2.0)
            connection.connect((address, port))
            connection.setblocking(False)
            return connection.detach()
        except OSError as error:
            failure = failure or error
            connection.close()
    raise failure or OSError(111, "refused")


def list_listening_ports(directory: str = "/proc/self/net") -> list[tuple[int, int]]:
    """Return the TCP ports that are listening in this process's network, sorted, each once, with a socket's inode."""
    ports: dict[int, int] = {}
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError), open(f"{directory}/{name}", "rb") as table:
            for line in table.read().splitlines()[1:]:
                fields = line.split()
                if len(fields) > 9 and fields[3] == _LISTENING:
                    ports.setdefault(int(fields[1].rpartition(b":")[2], 16), int(fields[9]))
    return sorted(ports.items())
