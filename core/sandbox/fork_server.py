"""The warm process that boxes are forked from: single-threaded, with few modules loaded, and no secrets in it.

It is a child of the engine, started with an empty environment, and takes orders (`order.py`) on a socket; when that
socket ends it kills all boxes and itself. For each order it forks a launcher that enters new namespaces and becomes the
parent of the box's pid 1; when the launcher is gone, so is everything of the box, its mounts included, and the server
says so. Runs in `python -I -S`; nothing is imported after the first order.
"""

from __future__ import annotations

import _socket
import array
import errno
import fcntl
import gc
import marshal
import os
import select
import signal
import struct

from core.sandbox import cgroups, kernel, mounts, order, supervise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from core.sandbox.order import Order, Report

_SET_FLAGS, _UP = 0x8914, 0x1  # SIOCSIFFLAGS, IFF_UP
_PID_MAX_PER_BOX = (6, 14)
_PATIENCE_MS, _LAST_WORDS_MS = 5000, 300


def main(requests: int, control_groups: int) -> NoReturn:
    """Serve until the engine's end of the socket is closed. `control_groups` 0: make none."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    _Server(_reserve(requests), cgroups.Groups() if control_groups else cgroups.Groups([])).run()


def _reserve(requests: int) -> int:
    """Keep the numbers that have a meaning in a box free of anything else."""
    nothing = os.open("/dev/null", os.O_RDWR)
    moved = fcntl.fcntl(requests, fcntl.F_DUPFD_CLOEXEC, order.FIRST_FREE + 8)
    for number in range(order.FIRST_FREE):
        if number not in {2, nothing}:  # standard error tells why a server did not start
            os.dup2(nothing, number, inheritable=False)
    return moved


class _Box:
    """What the server keeps of a running box."""

    def __init__(self, launcher: int, control: _socket.socket, group: cgroups.Group | None) -> None:
        self.launcher = launcher
        self.control = control
        self.group = group


class _Server:
    def __init__(self, requests: int, groups: cgroups.Groups) -> None:
        self._requests = _socket.socket(fileno=requests)
        self._boxes: dict[int, _Box] = {}
        self._groups = groups
        self._poll = select.poll()
        self._poll.register(requests, select.POLLIN)
        supervise.prepare()
        gc.collect()
        gc.freeze()  # a collection would write to every page that the children share
        gc.disable()

    def run(self) -> NoReturn:
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor == self._requests.fileno():
                    self._take_order()
                else:
                    self._bury(descriptor)

    def _take_order(self) -> None:
        space = _socket.CMSG_SPACE(5 * 4)
        data, ancillary, _, _ = self._requests.recvmsg(64, space, _socket.MSG_CMSG_CLOEXEC)
        if data != order.RUN:
            self._end()
        received = array.array("i")
        for _, _, content in ancillary:
            received.frombytes(content)
        wanted, control, *streams = received
        try:
            self._launch(wanted, _socket.socket(fileno=control), streams)
        finally:
            for each in (wanted, *streams):
                os.close(each)

    def _end(self) -> NoReturn:
        """The engine is gone. Each pid 1 has seen that too; what has not ended by itself in time is killed."""
        self._poll.unregister(self._requests.fileno())
        while self._boxes:
            gone = self._poll.poll(_LAST_WORDS_MS)
            for watch, _ in gone:
                self._bury(watch)
            for box in self._boxes.values() if not gone else ():
                os.kill(box.launcher, signal.SIGKILL)
        os._exit(0)

    def _launch(self, letter: int, control: _socket.socket, streams: list[int]) -> None:
        try:
            wanted = _read_order(letter)
            with supervise.Step("control group"):
                group = self._make_group(wanted)
        except supervise.StepFailed as failure:
            _tell(control, failure.report)
            _tell(control, ("gone", 0))
            control.close()
            return
        launcher = _Launcher(wanted, control, streams, group)
        pid = launcher.fork()
        watch = os.pidfd_open(pid)
        self._boxes[watch] = _Box(pid, control, group)
        self._poll.register(watch, select.POLLIN)

    def _make_group(self, wanted: Order) -> cgroups.Group | None:
        """As root only the group or the largest pid bounds processes; for others the limit of the user does too."""
        wanted["processes_by_pid"] = 0
        if os.getuid() == 0 and not self._groups.has(b"pids"):
            if _release() < _PID_MAX_PER_BOX:  # there root would set it for the whole machine
                raise OSError(errno.EPERM, "as root it takes a control group for pids, and none can be made here")
            wanted["processes_by_pid"] = max(wanted["processes"], 301)  # the least that the kernel takes
        if self._groups.has(b"memory"):
            group = self._groups.make(wanted["processes"], wanted["memory"])
            wanted["memory"] = 0
            return group
        return self._groups.make(wanted["processes"], 0) if self._groups.has(b"pids") else None

    def _bury(self, watch: int) -> None:
        """The launcher is gone: reap it, give up the group, and tell the engine that nothing is left."""
        box = self._boxes.pop(watch)
        self._poll.unregister(watch)
        os.close(watch)
        os.waitpid(box.launcher, 0)
        kills = 0
        if box.group is not None:
            kills = box.group.kills()
            box.group.remove()
        _tell(box.control, ("gone", kills))
        box.control.close()


def _release() -> tuple[int, int]:
    major, minor, *_ = os.uname().release.split(".")
    return int(major), int(minor.partition("-")[0])


def _read_order(letter: int) -> Order:
    size = os.fstat(letter).st_size
    wanted: Order = marshal.loads(os.pread(letter, size, 0))
    return wanted


def _tell(control: _socket.socket, report: Report) -> None:
    try:
        control.send(marshal.dumps(report))
    except OSError:
        return  # whoever asked is gone


class _Launcher:
    """From the server to pid 1: the steps that come before it, in a process of their own."""

    def __init__(self, wanted: Order, control: _socket.socket, streams: list[int], group: cgroups.Group | None) -> None:
        self._wanted = wanted
        self._control = control
        self._streams = streams
        self._group = group

    def fork(self) -> int:
        """The launcher's pid. As root the server maps the box's user ids: the box itself may map only its own."""
        server = os.getpid()
        ready, tell_ready = os.pipe()
        mapped, tell_mapped = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                self._run(server, tell_ready, mapped)
            except BaseException as error:
                _tell(self._control, supervise.report_of(error))
            finally:
                os._exit(1)
        os.close(tell_ready)
        os.close(mapped)
        if os.getuid() == 0 and os.read(ready, 1):
            _map_every_id(pid)
        os.close(ready)
        os.close(tell_mapped)
        return pid

    def _run(self, server: int, tell_ready: int, mapped: int) -> None:
        identity = (os.geteuid(), os.getegid())
        with supervise.Step("control group"):
            tables = [os.open(table, os.O_WRONLY) for table in (self._group.joins if self._group else ())]
        proxy = self._wanted["proxy"]
        with supervise.Step("proxy"):
            place = os.open(proxy, os.O_PATH) if proxy else -1
        tell_ready, mapped, *tables = self._keep([self._control.fileno(), place], [tell_ready, mapped, *tables])
        with supervise.Step("mounts inside the workspace"):
            submounts = mounts.take_submounts(self._wanted["workspace"])
        with supervise.Step("namespaces"):
            kernel.unshare(kernel.NEW_NAMESPACES)
        if identity[0] == 0:
            os.write(tell_ready, b"1")
        kernel.die_with_parent(signal.SIGKILL)
        if os.getppid() != server:
            os._exit(1)
        with supervise.Step("loopback"):
            _raise_loopback()
        in_group, joined = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(joined)
            self._become_pid_one(identity, mapped, in_group, submounts)
        for _, mount in submounts:
            os.close(mount)
        with supervise.Step("control group"):
            for table in tables:
                os.write(table, b"%d" % pid)
        os.write(joined, b"1")
        kernel.close_from(0)
        os.waitpid(pid, 0)
        os._exit(0)

    def _become_pid_one(
        self, identity: tuple[int, int], mapped: int, in_group: int, submounts: list[tuple[bytes, int]]
    ) -> NoReturn:
        """What takes the kernel or the server long goes on meanwhile: the command waits for `in_group`."""
        with supervise.Step("user ids"):
            _map_ids(identity, mapped)
        supervise.run_pid_one(self._wanted, submounts, in_group)

    def _keep(self, named: list[int], others: list[int]) -> list[int]:
        """Standard input, output, control and proxy get their numbers; all else but `others` is closed."""
        output, errors, *given = self._streams
        standard = [given[0] if given else 0, output, errors]
        high = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, 64) for each in others]
        for number, source in enumerate(standard):
            os.dup2(source, number)
            os.set_inheritable(number, True)  # dup2 onto itself leaves it as it was
        os.dup2(named[0], order.CONTROL, inheritable=False)
        if named[1] >= 0:
            os.dup2(named[1], order.PROXY, inheritable=False)
        kept = [order.FIRST_FREE + place for place in range(len(high))]
        for source, number in zip(high, kept, strict=True):
            os.dup2(source, number, inheritable=False)
        kernel.close_from(kept[-1] + 1)
        self._control.detach()
        self._control = _socket.socket(fileno=order.CONTROL)
        return kept


def _map_ids(identity: tuple[int, int], mapped: int) -> None:
    """Every id to itself as root, which the server has to do; else the own ones only, which is all that is allowed."""
    if identity[0] == 0:
        poll = select.poll()
        poll.register(mapped, select.POLLIN)
        poll.poll(_PATIENCE_MS)
    if os.geteuid() != identity[0]:
        _put(b"/proc/self/setgroups", b"deny")
        _put(b"/proc/self/uid_map", b"%d %d 1" % (identity[0], identity[0]))
        _put(b"/proc/self/gid_map", b"%d %d 1" % (identity[1], identity[1]))
    os.close(mapped)


def _map_every_id(pid: int) -> None:
    """As root: each id that there is here, to itself."""
    for table in (b"uid_map", b"gid_map"):
        try:
            with open(b"/proc/self/" + table, "rb") as ranges:
                known = [line.split() for line in ranges]
            _put(b"/proc/%d/%s" % (pid, table), b"".join(b"%s %s %s\n" % (first, first, n) for first, _, n in known))
        except OSError:
            return  # it finds its ids unmapped, and maps what it may


def _put(table: bytes, text: bytes) -> None:
    descriptor = os.open(table, os.O_WRONLY)
    try:
        os.write(descriptor, text)
    finally:
        os.close(descriptor)


def _raise_loopback() -> None:
    with_name = struct.pack("16sH14x", b"lo", _UP)
    probe = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    try:
        fcntl.ioctl(probe.fileno(), _SET_FLAGS, with_name)
    finally:
        probe.close()
