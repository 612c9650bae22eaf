"""The process between the engine and a box whose pid 1 is not ours: bubblewrap's, or Landlock's.

It starts the command's process, reports to the engine, and adopts orphans of the command as a subreaper. It kills all
of them when the command has ended, when the engine orders it and when the engine is gone. Runs in `python -I -S -B`;
its messages are those of `core.sandbox.inside.messages`.
"""

from __future__ import annotations

import _socket
import contextlib
import ctypes
import fcntl
import marshal
import os
import select
import signal

from core.sandbox.inside import (
    directory_renames,
    kernel,
    landlock,
    messages,
    mounts,
    processes,
    root_filesystem,
    seccomp,
)
from core.sandbox.inside.messages import FILTER, READY, RUNNING, SETTINGS, STATUS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from core.sandbox.inside.messages import BoxReport, OverlayRoot, SupervisorLaunch

_MEMORY_CHECK_MS = 250
_END_SECONDS = 5.0
_PAUSE_MS = 5
_PR_SET_CHILD_SUBREAPER, _HIGH = 36, 16


def main(message_file: int, control: int, *shared: int) -> NoReturn:
    """Run with two descriptors: an anonymous file with the message in `marshal`'s format, and the engine's socket; and
    with the namespaces of a network that is shared."""
    with os.fdopen(message_file, "rb") as file:
        message: SupervisorLaunch = marshal.load(file)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    engine = _socket.socket(fileno=control)
    status, status_writer = os.pipe()
    ready, ready_writer = os.pipe()
    try:
        group = _make_group(message)
    except OSError as error:
        engine.send(marshal.dumps(("failed", "process limit", error.errno or 0, error.strerror or "")))
        os._exit(1)
    _, renamer = directory_renames.start_helper(enters_mounts=True) if message["has_overlay"] else (0, 0)
    child = os.fork()
    if child == 0:
        engine.detach()
        _become_command(message, group, (status_writer, ready_writer, renamer), list(shared))
    for descriptor in (status_writer, ready_writer, *filter(None, [renamer]), *shared, 0, 1, 2):
        os.close(descriptor)
    _Supervisor(engine, child, message, group, (status, ready)).run()


def _make_group(message: SupervisorLaunch) -> processes.BoxCgroup | None:
    """Make the control group; without one an ordinary user's limit bounds processes, and nothing bounds root's."""
    if message["leaves_processes"] or message["user"]:  # another user than root is bounded by a limit
        return None
    groups = processes.CgroupFactory()
    if not groups.has_controller(b"pids"):
        if os.getuid() == 0:
            raise OSError(1, "as root, nothing but a pids control group bounds processes, and none can be made here")
        return None
    return groups.make(message["processes"], message["memory"] if groups.has_controller(b"memory") else 0)


def _become_command(
    message: SupervisorLaunch,
    group: processes.BoxCgroup | None,
    descriptors: tuple[int, int, int],
    shared: list[int],
) -> NoReturn:
    step, supervisor = "process", os.getppid()
    status_writer, ready_writer, renamer = descriptors
    try:
        kernel.die_with_parent(signal.SIGKILL)
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        for table in group.process_files if group else []:
            kernel.write_setting(table, b"0")
        kernel.join_network(shared)
        _die_with(supervisor)
        if renamer:
            directory_renames.report_renames(renamer)
        _arrange_descriptors(message, status_writer, ready_writer)
        ready_writer = READY
        if message["root"] is not None:
            step = "file system"
            _enter_overlay_root(message["root"], message["scratch"])
            _die_with(supervisor)
        kernel.leave_session_keyring()
        step = "directory"
        os.chdir(message["cwd"])
        step = "restrictions"
        _restrict(message, supervisor)
        step = "command"
        os.execve(message["arguments"][0], message["arguments"], message["env"])
    except OSError as error:
        os.write(ready_writer, marshal.dumps(("failed", step, error.errno or 0, error.strerror or str(error))))
    os._exit(127)


def _die_with(supervisor: int) -> None:
    """Die with the supervisor, also now: changes of the user and of file access have cleared that."""
    kernel.die_with_parent(signal.SIGKILL)
    if os.getppid() != supervisor:
        os._exit(1)


def _restrict(message: SupervisorLaunch, supervisor: int) -> None:
    """Set the limits, and give up rights by Landlock, another user and the syscall filter where these contain the
    command. Landlock's rules name paths that only root may reach, so the user comes after them."""
    is_held = message["rules"] is not None
    if message["rules"] is not None:
        landlock.restrict_self(message["rules"], tcp=bool(message["families"]))
    if message["user"]:
        kernel.drop_bounding_set()
        kernel.become_user(*message["user"])
        _die_with(supervisor)
    # In bubblewrap's user namespace the innermost shell limits processes, since only the box's count there.
    is_bounded = not message["bubblewrap"] and not message["leaves_processes"]
    processes.set_limits(message, message["processes"] + _count_own_processes() if is_bounded else None)
    if is_held:
        kernel.drop_capabilities()
        seccomp.install_filter(seccomp.build_filter(message["families"]))


def _arrange_descriptors(message: SupervisorLaunch, status_writer: int, ready_writer: int) -> None:
    """Move the descriptors to their numbers and close all others. Bubblewrap inherits them, a command does not."""
    program = _open_content("filter", seccomp.build_filter(message["families"]))
    settings = _open_content("settings", message["git_settings"])
    sources = [
        fcntl.fcntl(descriptor, fcntl.F_DUPFD, _HIGH) for descriptor in (status_writer, ready_writer, program, settings)
    ]
    for target, source in zip((STATUS, READY, FILTER, SETTINGS), sources, strict=True):
        os.dup2(source, target, inheritable=message["bubblewrap"])
    kernel.close_from(SETTINGS + 1)


def _open_content(name: str, content: bytes) -> int:
    """Return the descriptor of an anonymous file with this content."""
    descriptor = os.memfd_create(name)
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _enter_overlay_root(root: OverlayRoot, scratch: int) -> None:
    """Enter new namespaces and a root that bubblewrap can bind as a whole. Root needs no user namespace for that."""
    user, group = os.getuid(), os.getgid()
    submounts = mounts.detach_submounts(root["workspace"])
    if user == 0:
        kernel.unshare(kernel.NEW_MOUNTS)
    else:
        kernel.unshare(kernel.NEW_USER | kernel.NEW_MOUNTS)
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            kernel.write_setting(f"/proc/self/{name}".encode(), text.encode())
    root_filesystem.build_overlay_root(root, scratch, submounts)


def _count_own_processes() -> int:
    """Return the number of the user's existing threads; the limit includes them."""
    count = 0
    for name in os.listdir(b"/proc"):
        try:
            if name.isdigit() and os.stat(b"/proc/" + name).st_uid == os.getuid():
                count += len(os.listdir(b"/proc/" + name + b"/task"))
        except OSError:
            continue
    return count


class _Supervisor:
    def __init__(
        self,
        engine: _socket.socket,
        child: int,
        message: SupervisorLaunch,
        group: processes.BoxCgroup | None,
        pipes: tuple[int, int],
    ) -> None:
        self._engine = engine
        self._child = child
        self._message = message
        self._group = group
        self._status, self._ready = pipes
        self._status_read = b""
        self._is_terminating = False
        self._woken = processes.open_child_signals()

    def run(self) -> NoReturn:
        self._wait_for_start()
        poll = select.poll()
        for source in (self._engine.fileno(), self._woken):
            poll.register(source, select.POLLIN)
        self._reap()  # children that ended before the handler was installed
        memory_limit = self._message["memory"]
        while True:
            ready = {descriptor for descriptor, _ in poll.poll(_MEMORY_CHECK_MS if memory_limit else None)}
            if memory_limit and processes.exceeds_memory(processes.list_descendants(os.getpid()), memory_limit):
                self._send(("memory",))
                self._kill_all()
            if self._woken in ready:
                os.read(self._woken, 512)
                self._reap()
            if self._engine.fileno() in ready:
                self._handle_control()

    def _wait_for_start(self) -> None:
        """Wait until the command is executed, a step has failed, or the engine has aborted."""
        poll = select.poll()
        poll.register(self._ready, select.POLLIN)
        poll.register(self._engine.fileno(), select.POLLIN)
        if any(descriptor == self._engine.fileno() for descriptor, _ in poll.poll()):
            self._kill_all()
        content = os.read(self._ready, 65536)
        report: BoxReport = ("started",)
        if content not in {RUNNING, b""}:
            report = marshal.loads(content)
        elif content == b"" and self._message["bubblewrap"]:
            report = ("failed", "bubblewrap", 0, "")
        self._send(report)
        if report[0] == "failed":
            self._kill_all()

    def _handle_control(self) -> None:
        match self._engine.recv(64):
            case messages.INTERRUPT:
                processes.signal_group(self._find_group_leader(), signal.SIGINT)
            case messages.TERMINATE:
                self._is_terminating = True  # descendants of the command also get the rest of the grace period
                above = self._find_group_leader() if self._message["bubblewrap"] else os.getpid()
                for pid in processes.list_descendants(above):
                    processes.send_signal(pid, signal.SIGTERM)
            case _:
                self._kill_all()

    def _find_group_leader(self) -> int:
        """Return the pid of the command's process group: the command, or pid 1 of bubblewrap's box."""
        if not self._message["bubblewrap"]:
            return self._child
        return parse_number_after(self._read_status(), b'"child-pid":') or self._child

    def _read_status(self) -> bytes:
        os.set_blocking(self._status, False)
        with contextlib.suppress(BlockingIOError):
            self._status_read += os.read(self._status, 65536)
        return self._status_read

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._kill_all()
            if pid == 0:
                return
            if pid == self._child:
                self._report_exit(os.waitstatus_to_exitcode(status))
                self._report_left()
                if self._message["leaves_processes"] and not self._is_terminating:
                    self._send(("gone", 0))
                    os._exit(0)
                if not self._is_terminating:
                    self._kill_all()

    def _report_left(self) -> None:
        """Report the processes that the command leaves running. Those in bubblewrap's box have ended with its pid 1."""
        is_known = not self._is_terminating and not self._message["bubblewrap"]
        commands = self._list_left() if is_known else []
        if commands:
            self._send(("left", commands))

    def _list_left(self) -> list[bytes]:
        return processes.read_commands(processes.list_descendants(os.getpid()), self._message["arguments"])

    def _report_exit(self, code: int) -> None:
        if self._message["bubblewrap"]:
            exit_code = parse_number_after(self._read_status(), b'"exit-code":')
            if exit_code is None:
                return  # bubblewrap was killed, so the command's exit code is unknown
            code = exit_code
        self._send(("exit", code if code >= 0 else 128 - code))

    def _kill_all(self) -> NoReturn:
        """Kill all remaining processes and exit. All are stopped first, so that none forks while others are killed."""
        for _ in range(round(_END_SECONDS * 1000 / _PAUSE_MS)):
            pids = list(processes.list_descendants(os.getpid()))
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for pid in pids:
                    processes.send_signal(pid, number)
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                break
            select.poll().poll(_PAUSE_MS)
        kills = 0
        if self._group is not None:
            kills = self._group.count_oom_kills()
            self._group.remove()
        self._send(("gone", kills))
        os._exit(0)

    def _send(self, report: BoxReport) -> None:
        with contextlib.suppress(OSError):  # the engine may be gone, which changes nothing
            self._engine.send(marshal.dumps(report))


def parse_number_after(text: bytes, label: bytes) -> int | None:
    """Return the whole number that follows a label, None if there is none."""
    _, separator, rest = text.partition(label)
    digits = rest.strip().split(b"\n")[0].split(b"}")[0].split(b",")[0].strip()
    return int(digits) if separator and digits.isdigit() else None
