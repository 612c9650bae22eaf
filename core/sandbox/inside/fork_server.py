"""The warm process that boxes are forked from: single-threaded, with few modules loaded and no secrets in it.

It is a child of the engine, started with an empty environment, and takes launch messages (`messages.py`) on a socket;
when that socket is closed it kills all boxes and itself. For every message it forks a launcher that enters new
namespaces and becomes the parent of the box's pid 1. The end of the launcher ends the whole box, its mounts included,
and the server reports it. Runs in `python -I -S -B`; nothing is imported after the first message.
"""

from __future__ import annotations

import _socket
import array
import contextlib
import errno
import fcntl
import gc
import marshal
import os
import select
import signal

from core.sandbox.inside import init_process, kernel, messages, mounts, network_process, processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from core.sandbox.inside.messages import BoxReport, NamespaceLaunch

_PID_MAX_PER_BOX = (6, 14)
_MAPPING_TIMEOUT_MS, _SHUTDOWN_TIMEOUT_MS = 5000, 300


def main(requests: int, control_groups: int) -> NoReturn:
    """Serve until the engine's end of the socket is closed. `control_groups` 0: make none."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    groups = processes.CgroupFactory(None if control_groups else [])
    _Server(_reserve_descriptors(requests), groups).serve()


def _reserve_descriptors(requests: int) -> int:
    """Reserve the descriptor numbers that have a meaning in a box; return the socket's new number."""
    nothing = os.open("/dev/null", os.O_RDWR)
    descriptor = fcntl.fcntl(requests, fcntl.F_DUPFD_CLOEXEC, messages.FIRST_FREE + 8)
    for number in range(messages.FIRST_FREE):
        if number not in {2, nothing}:  # standard error explains why a server did not start
            os.dup2(nothing, number, inheritable=False)
    return descriptor


class _Server:
    def __init__(self, requests: int, groups: processes.CgroupFactory) -> None:
        self._requests = _socket.socket(fileno=requests)
        # The running boxes by their launcher's pidfd: the launcher's pid, the control socket, and the control group.
        self._boxes: dict[int, tuple[int, _socket.socket, processes.BoxCgroup | None]] = {}
        self._groups = groups
        self._poll = select.poll()
        self._poll.register(requests, select.POLLIN)
        init_process.prepare_filter()
        gc.collect()
        gc.freeze()  # a garbage collection would write to every page shared with the children
        gc.disable()

    def serve(self) -> NoReturn:
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor == self._requests.fileno():
                    self._handle_request()
                else:
                    self._reap_box(descriptor)

    def _handle_request(self) -> None:
        space = _socket.CMSG_SPACE(8 * 4)
        data, ancillary, _, _ = self._requests.recvmsg(64, space, _socket.MSG_CMSG_CLOEXEC)
        if data != messages.RUN:
            self._shut_down()
        descriptors = array.array("i")
        for _, _, content in ancillary:
            descriptors.frombytes(content)
        message_file, control, *others = descriptors
        try:
            self._launch_box(message_file, _socket.socket(fileno=control), others)
        finally:
            for descriptor in (message_file, *others):
                os.close(descriptor)

    def _shut_down(self) -> NoReturn:
        """Exit after the engine is gone. Every pid 1 has noticed that too; launchers that do not end in time are
        killed."""
        self._poll.unregister(self._requests.fileno())
        while self._boxes:
            events = self._poll.poll(_SHUTDOWN_TIMEOUT_MS)
            for watch, _ in events:
                self._reap_box(watch)
            for launcher, _, _ in self._boxes.values() if not events else ():
                os.kill(launcher, signal.SIGKILL)
        os._exit(0)

    def _launch_box(self, message_file: int, control: _socket.socket, descriptors: list[int]) -> None:
        try:
            message: NamespaceLaunch = marshal.loads(os.pread(message_file, os.fstat(message_file).st_size, 0))
            with init_process.name_step("control group"):
                group = self._make_group(message)
        except init_process.SetupStepFailed as failure:
            _send_report(control, failure.report)
            _send_report(control, ("gone", 0))
            control.close()
            return
        launcher = _BoxLauncher(message, control, descriptors, group)
        pid = launcher.fork()
        watch = os.pidfd_open(pid)
        self._boxes[watch] = (pid, control, group)
        self._poll.register(watch, select.POLLIN)

    def _make_group(self, message: NamespaceLaunch) -> processes.BoxCgroup | None:
        """Make the box's control group. As root only it or the largest pid bounds processes, else the user's limit
        does."""
        message["processes_by_pid"] = 0
        if os.getuid() == 0 and not self._groups.has_controller(b"pids"):
            if _read_kernel_release() < _PID_MAX_PER_BOX:  # on older kernels the setting is global
                raise OSError(errno.EPERM, "as root it takes a control group for pids, and none can be made here")
            message["processes_by_pid"] = max(message["processes"], 301)  # the minimum that the kernel accepts
        if self._groups.has_controller(b"memory"):
            group = self._groups.make(message["processes"], message["memory"])
            message["memory"] = 0
            return group
        return self._groups.make(message["processes"], 0) if self._groups.has_controller(b"pids") else None

    def _reap_box(self, watch: int) -> None:
        """Reap a launcher that ended, remove its control group, and report the end of the box to the engine."""
        launcher, control, group = self._boxes.pop(watch)
        self._poll.unregister(watch)
        os.close(watch)
        os.waitpid(launcher, 0)
        kills = 0
        if group is not None:
            kills = group.count_oom_kills()
            group.remove()
        _send_report(control, ("gone", kills))
        control.close()


def _read_kernel_release() -> tuple[int, int]:
    major, minor, *_ = os.uname().release.split(".")
    return int(major), int(minor.partition("-")[0])


def _send_report(control: _socket.socket, report: BoxReport) -> None:
    with contextlib.suppress(OSError):  # the engine may be gone
        control.send(marshal.dumps(report))


class _BoxLauncher:
    """The steps from the server to pid 1, in a separate process."""

    def __init__(
        self,
        message: NamespaceLaunch,
        control: _socket.socket,
        descriptors: list[int],
        group: processes.BoxCgroup | None,
    ) -> None:
        """`descriptors`: output, errors, perhaps input, the namespaces of a shared network, and perhaps a socket for
        edits."""
        self._message = message
        self._control = control
        count = len(descriptors) - message["shared_namespaces"] - message["takes_edits"]
        self._streams, self._others = descriptors[:count], descriptors[count:]
        self._group = group

    def fork(self) -> int:
        """Fork and return the launcher's pid. As root the server maps the box's user ids: it may map only its own."""
        server = os.getpid()
        ready, tell_ready = os.pipe()
        mapping_reader, mapping_writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                self._run(server, tell_ready, mapping_reader)
            except BaseException as error:
                _send_report(self._control, init_process.build_failure_report(error))
            finally:
                os._exit(1)
        os.close(tell_ready)
        os.close(mapping_reader)
        if os.getuid() == 0 and os.read(ready, 1):
            _map_all_ids(pid)
        os.close(ready)
        os.close(mapping_writer)
        return pid

    def _run(self, server: int, tell_ready: int, mapping_reader: int) -> None:
        identity = (os.geteuid(), os.getegid())
        with init_process.name_step("control group"):
            tables = [os.open(table, os.O_WRONLY) for table in (self._group.process_files if self._group else ())]
        proxy = self._message["proxy"]
        with init_process.name_step("proxy"):
            proxy_descriptor = os.open(proxy, os.O_PATH) if proxy else -1
        tell_ready, mapping_reader, *others = self._arrange_descriptors(
            [self._control.fileno(), proxy_descriptor], [tell_ready, mapping_reader, *self._others, *tables]
        )
        count = self._message["shared_namespaces"]
        shared, edits, tables = others[:count], others[count : len(self._others)], others[len(self._others) :]
        with init_process.name_step("mounts inside the workspace"):
            submounts = mounts.detach_submounts(self._message["workspace"])
        with init_process.name_step("namespaces"):
            kernel.join_network(shared)
            kernel.unshare(kernel.NEW_NAMESPACES & ~kernel.NEW_NETWORK if shared else kernel.NEW_NAMESPACES)
        if identity[0] == 0:
            os.write(tell_ready, b"1")
        kernel.die_with_parent(signal.SIGKILL)
        if os.getppid() != server:
            os._exit(1)
        if not shared:
            with init_process.name_step("loopback"):
                network_process.bring_up_loopback()
        in_group, group_writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(group_writer)
            self._become_pid_one(identity, mapping_reader, in_group, (submounts, edits))
        for _, mount in submounts:
            os.close(mount)
        with init_process.name_step("control group"):
            for table in tables:
                os.write(table, b"%d" % pid)
        os.write(group_writer, b"1")
        kernel.close_from(0)
        os.waitpid(pid, 0)
        os._exit(0)

    def _become_pid_one(
        self,
        identity: tuple[int, int],
        mapping_reader: int,
        in_group: int,
        supplies: tuple[list[tuple[bytes, int]], list[int]],
    ) -> NoReturn:
        """Become pid 1. The set-up runs while the launcher joins the control group; the command waits for `in_group`.
        `supplies`: the mounts inside the workspace, and the socket for edits, if there is one."""
        with init_process.name_step("user ids"):
            _map_ids(identity, mapping_reader)
        init_process.run_pid_one(self._message, *supplies, in_group)

    def _arrange_descriptors(self, fixed_descriptors: list[int], others: list[int]) -> list[int]:
        """Move standard streams, control and proxy to their numbers; close everything else but `others`."""
        output, errors, *inputs = self._streams
        standard = [inputs[0] if inputs else 0, output, errors]
        high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 64) for descriptor in others]
        for number, source in enumerate(standard):
            os.dup2(source, number)
            os.set_inheritable(number, True)  # dup2 onto itself changes nothing
        os.dup2(fixed_descriptors[0], messages.CONTROL, inheritable=False)
        if fixed_descriptors[1] >= 0:
            os.dup2(fixed_descriptors[1], messages.PROXY, inheritable=False)
        numbers = [messages.FIRST_FREE + index for index in range(len(high))]
        for source, number in zip(high, numbers, strict=True):
            os.dup2(source, number, inheritable=False)
        kernel.close_from(numbers[-1] + 1)
        self._control.detach()
        self._control = _socket.socket(fileno=messages.CONTROL)
        return numbers


def _map_ids(identity: tuple[int, int], mapping_reader: int) -> None:
    """Wait until the server has mapped every id (as root); else map our own id, the only one that is allowed."""
    if identity[0] == 0:
        poll = select.poll()
        poll.register(mapping_reader, select.POLLIN)
        poll.poll(_MAPPING_TIMEOUT_MS)
    if os.geteuid() != identity[0]:
        kernel.write_setting(b"/proc/self/setgroups", b"deny")
        kernel.write_setting(b"/proc/self/uid_map", b"%d %d 1" % (identity[0], identity[0]))
        kernel.write_setting(b"/proc/self/gid_map", b"%d %d 1" % (identity[1], identity[1]))
    os.close(mapping_reader)


def _map_all_ids(pid: int) -> None:
    """Map every known id to itself in the namespace of process `pid`; for root only."""
    for table in (b"uid_map", b"gid_map"):
        try:
            with open(b"/proc/self/" + table, "rb") as ranges:
                id_ranges = [line.split() for line in ranges]
            kernel.write_setting(
                b"/proc/%d/%s" % (pid, table), b"".join(b"%s %s %s\n" % (first, first, n) for first, _, n in id_ranges)
            )
        except OSError:
            return  # the child finds its ids unmapped and maps its own
