"""Pid 1 of a box: builds the root file system, starts the command, waits for it, and ends everything by exiting.

Rights are dropped only after the root file system is complete, and before the command starts. The kernel kills the
command's remaining processes when pid 1 exits; pid 1 exits when the command has ended, when the engine orders it, and
when the engine is gone. Runs in `python -I -S -B`.
"""

from __future__ import annotations

import _socket
import contextlib
import fcntl
import marshal
import os
import select
import signal
import stat

from core.sandbox.inside import (
    directory_renames,
    kernel,
    landlock,
    live_edits,
    messages,
    port_forward,
    processes,
    root_filesystem,
    seccomp,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import NoReturn

    from core.sandbox.inside.messages import BoxReport, NamespaceLaunch

_MEMORY_CHECK_MS = 100
_prepared: dict[str, bytes] = {}


def prepare_filter() -> None:
    """Build the syscall filter once; it is the same for every command."""
    _prepared["filter"] = seccomp.build_filter()


class SetupStepFailed(Exception):
    """A step of the set-up was refused: the step's readable name and the kernel's error."""

    def __init__(self, step: str, error: OSError) -> None:
        super().__init__(step)
        self.report: BoxReport = ("failed", step, error.errno or 0, error.strerror or str(error))


def build_failure_report(error: BaseException) -> BoxReport:
    """Return the report of a failure; an unexpected error is reported with its type."""
    if isinstance(error, SetupStepFailed):
        return error.report
    return ("failed", "unforeseen", 0, f"{type(error).__name__}: {error}")


@contextlib.contextmanager
def name_step(name: str) -> Iterator[None]:
    """Label a step for the report of its failure: `with name_step("mounts"):`."""
    try:
        yield
    except OSError as error:
        raise SetupStepFailed(name, error) from error


def run_pid_one(
    message: NamespaceLaunch, submounts: list[tuple[bytes, int]], edits: list[int], in_group: int
) -> NoReturn:
    """Run as pid 1; never returns. `edits`: the socket for them, if there is one. `in_group` becomes readable once the
    process is in its control group."""
    control = _socket.socket(fileno=messages.CONTROL)
    try:
        forwarder = _set_up_box(message, submounts)
        if not os.read(in_group, 1):
            os._exit(1)  # the launcher has reported why
        os.close(in_group)
        helpers = {forwarder, *(live_edits.start_helper(socket, message["workspace"]) for socket in edits)}
        renamer, connection = directory_renames.start_helper()
        child = _start_command(message, control, connection)
    except BaseException as error:
        _send_report(control, build_failure_report(error))
        os._exit(1)
    _InitProcess(control, child, {*helpers, renamer} - {0}, message).run()


def _set_up_box(message: NamespaceLaunch, submounts: list[tuple[bytes, int]]) -> int:
    """Build the root and drop all rights. Returns the pid of the network forwarder, 0 without."""
    with name_step("process"):
        kernel.die_with_parent(signal.SIGKILL)
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        kernel.leave_session_keyring()
    with name_step("file system"):
        root_filesystem.build_root(message, submounts)
    with name_step("network"):
        has_own_network = not message["shared_namespaces"]
        services = message["services"]
        listeners = port_forward.open_listeners(services, has_own_network=has_own_network) if message["proxy"] else []
    with name_step("capabilities"):
        _drop_rights(message)
        kernel.die_with_parent(signal.SIGKILL)  # changing users clears it; a race is covered by the engine's socket
        kernel.forbid_inspection()
    return port_forward.start_forwarder(listeners) if listeners else 0


def _drop_rights(message: NamespaceLaunch) -> None:
    """Drop all capabilities. Root also drops its groups, and becomes the owner of another user's workspace."""
    kernel.drop_bounding_set()
    if os.getuid() == 0 and kernel.find_nobody_id():
        os.setgroups([])
    if message["owner"]:
        for stream in (0, 1, 2):
            if stat.S_ISFIFO(os.fstat(stream).st_mode):  # not /dev/null, which is the machine's
                os.fchown(stream, *message["owner"])
        kernel.become_user(*message["owner"])
    kernel.drop_capabilities()


def _start_command(message: NamespaceLaunch, control: _socket.socket, renamer: int) -> int:
    """Start the command and return its pid. A failed execution is reported like any failed step. `renamer`: the socket
    of the helper for renames."""
    trouble_reader, trouble_writer = os.pipe()
    child = os.fork()
    if child == 0:
        _become_command(message, trouble_writer, renamer)
    os.close(trouble_writer)
    os.close(renamer)
    for descriptor in (0, 1, 2):
        os.close(descriptor)
    trouble = b""
    while piece := os.read(trouble_reader, 4096):
        trouble += piece
    os.close(trouble_reader)
    if trouble:
        _send_report(control, marshal.loads(trouble))
        os._exit(1)
    _send_report(control, ("started",))
    return child


def _become_command(message: NamespaceLaunch, report_pipe: int, renamer: int) -> NoReturn:
    try:
        _confine_self(message, report_pipe, renamer)
        with name_step("command"):
            arguments = message["arguments"]
            os.execve(arguments[0], arguments, message["env"])
    except BaseException as error:
        os.write(messages.CONTROL, marshal.dumps(build_failure_report(error)))
    os._exit(127)


def _confine_self(message: NamespaceLaunch, trouble_writer: int, renamer: int) -> None:
    """Take the last, irreversible steps, in the command's own process."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    with name_step("process"):
        os.setsid()
        trouble_writer, renamer = (
            fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 64) for number in (trouble_writer, renamer)
        )
        os.dup2(trouble_writer, messages.CONTROL, inheritable=False)
        os.dup2(renamer, messages.RENAMER, inheritable=False)
        kernel.close_from(messages.RENAMER + 1)
    with name_step("directory"):
        os.chdir(message["workspace"] + b"/" + message["cwd"])
    with name_step("limits"):
        processes.set_limits(message, message["processes"])
    with name_step("landlock"):
        if landlock.get_abi_version() > 0:
            landlock.restrict_self(_list_landlock_rules(message))
    with name_step("seccomp"):
        directory_renames.report_renames(messages.RENAMER)
        seccomp.install_filter(_prepared["filter"])


def _list_landlock_rules(message: NamespaceLaunch) -> list[tuple[str, int]]:
    writable_paths = [message["workspace"], os.path.realpath(message["home"]), *filter(None, [message["repository"]])]
    writable_paths += [os.path.realpath(target) for _, target in message["writable"]]
    rules = [(os.fsdecode(path), landlock.EVERYTHING) for path in writable_paths]
    rules += [(path, landlock.EVERYTHING) for path in ("/tmp", "/var/tmp", "/run", "/dev/shm")]
    return [("/", landlock.READ), ("/dev", landlock.USE), *rules]


def _send_report(control: _socket.socket, report: BoxReport) -> None:
    try:
        control.send(marshal.dumps(report))
    except OSError:
        os._exit(1)  # the engine is gone


class _InitProcess:
    def __init__(self, control: _socket.socket, child: int, helpers: set[int], message: NamespaceLaunch) -> None:
        """`helpers`: the pids of our own processes in the box."""
        self._control = control
        self._child = child
        self._own_pids = {1, *helpers}
        self._arguments, self._memory_limit = message["arguments"], message["memory"]
        self._is_terminating = False
        self._woken = processes.open_child_signals()

    def run(self) -> NoReturn:
        poll = select.poll()
        poll.register(messages.CONTROL, select.POLLIN)
        poll.register(self._woken, select.POLLIN)
        self._reap()  # children that ended before the handler was installed
        while True:
            ready = poll.poll(_MEMORY_CHECK_MS if self._memory_limit else None)
            if self._memory_limit and processes.exceeds_memory(processes.list_processes(), self._memory_limit):
                _send_report(self._control, ("memory",))
                os._exit(0)
            for descriptor, _ in ready:
                if descriptor == messages.CONTROL:
                    self._handle_control()
                else:
                    os.read(self._woken, 512)
                    self._reap()

    def _handle_control(self) -> None:
        word = self._control.recv(64)
        match word:
            case messages.INTERRUPT:
                processes.signal_group(self._child, signal.SIGINT)
            case messages.TERMINATE:
                self._terminate()
            case _:
                os._exit(0)

    def _terminate(self) -> None:
        """Send SIGTERM to all processes but our own, which ignore it."""
        self._is_terminating = True
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGTERM)
        self._exit_if_alone()

    def _exit_if_alone(self) -> None:
        if self._is_terminating and not self._list_others():
            os._exit(0)

    def _list_others(self) -> list[int]:
        return [pid for pid in processes.list_processes() if pid not in self._own_pids]

    def _reap(self) -> None:
        """Reap ended processes. While terminating, the command's descendants also get the rest of the grace period."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                os._exit(0)
            if pid == 0:
                self._exit_if_alone()
                return
            if pid == self._child:
                code = os.waitstatus_to_exitcode(status)
                _send_report(self._control, ("exit", code if code >= 0 else 128 - code))
                if not self._is_terminating:
                    self._report_left()
                    os._exit(0)

    def _report_left(self) -> None:
        """Report the processes that the command leaves running, which end with this one."""
        left = self._list_others()
        if left and (commands := processes.read_commands(left, self._arguments)):
            _send_report(self._control, ("left", commands))
