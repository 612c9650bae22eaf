"""Pid 1 of a box: makes the view, starts the command, waits for it, and ends everything by ending itself.

The order of steps is that of SAFETY D23. Whatever the command leaves behind is killed by the kernel when pid 1 exits;
pid 1 exits when the command has ended, when the engine says so, and when the engine is gone. Runs in `python -I -S`.
"""

from __future__ import annotations

import _socket
import marshal
import os
import resource
import select
import signal

from core.sandbox import forward, kernel, landlock, memory, order, seccomp, view

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from core.sandbox.order import Order, Report

_WATCH_MS = 100


_prepared: dict[str, bytes] = {}


def prepare() -> None:
    """Make once what is the same for every command."""
    _prepared["filter"] = seccomp.filter_program()


class StepFailed(Exception):
    """A step of the set-up was refused: its name, for a person, and the kernel's error."""

    def __init__(self, step: str, error: OSError) -> None:
        super().__init__(step)
        self.report: Report = ("failed", step, error.errno or 0, error.strerror or str(error))


def report_of(error: BaseException) -> Report:
    """What to tell the engine; an error that no step expected is told with its type."""
    if isinstance(error, StepFailed):
        return error.report
    return ("failed", "unforeseen", 0, f"{type(error).__name__}: {error}")


class Step:
    """Names what is being done, so that a refusal can be told: `with Step("mounts"):`"""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise StepFailed(self._name, error) from error


def run_pid_one(wanted: Order, submounts: list[tuple[bytes, int]], in_group: int) -> NoReturn:
    """All that happens in pid 1. Never returns. `in_group` can be read from when it is in its control group."""
    control = _socket.socket(fileno=order.CONTROL)
    try:
        forwarder = _set_up(wanted, submounts)
        if not os.read(in_group, 1):
            os._exit(1)  # the launcher has told why
        os.close(in_group)
        child = _start_command(wanted, control)
    except BaseException as error:
        _send(control, report_of(error))
        os._exit(1)
    _Supervisor(control, child, forwarder, wanted["memory"]).run()


def _set_up(wanted: Order, submounts: list[tuple[bytes, int]]) -> int:
    """Build the view and give up what it took. Answers with the pid of the network forwarder, 0 without."""
    with Step("process"):
        kernel.die_with_parent(signal.SIGKILL)
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        kernel.leave_session_keyring()
    with Step("file system"):
        view.build(wanted, submounts)
    with Step("network"):
        listening = forward.listen() if wanted["proxy"] else None
    with Step("capabilities"):
        _give_up_rights(wanted)
        kernel.die_with_parent(signal.SIGKILL)  # changing users clears it; who was late ends with the engine's socket
        kernel.forbid_inspection()
    return forward.start(listening) if listening is not None else 0


def _give_up_rights(wanted: Order) -> None:
    """All capabilities. Root also gives up its groups, and becomes the owner of another user's workspace."""
    kernel.drop_bounding_set()
    if os.getuid() == 0 and kernel.other_id():
        os.setgroups([])
    if wanted["owner"]:
        for stream in (0, 1, 2):
            os.fchown(stream, *wanted["owner"])
        kernel.become(*wanted["owner"])
    kernel.drop_capabilities()


def _start_command(wanted: Order, control: _socket.socket) -> int:
    """The command's pid. When it could not be executed, that was a failed step like any other."""
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        _become_command(wanted, tell)
    os.close(tell)
    for each in (0, 1, 2):
        os.close(each)
    trouble = b""
    while piece := os.read(told, 4096):
        trouble += piece
    os.close(told)
    if trouble:
        _send(control, marshal.loads(trouble))
        os._exit(1)
    _send(control, ("started",))
    return child


def _become_command(wanted: Order, tell: int) -> NoReturn:
    try:
        _confine(wanted, tell)
        with Step("command"):
            arguments = wanted["arguments"]
            os.execve(arguments[0], arguments, wanted["env"])
    except BaseException as error:
        os.write(order.CONTROL, marshal.dumps(report_of(error)))
    os._exit(127)


def _confine(wanted: Order, tell: int) -> None:
    """The last steps, in the command's own process: nothing of them can be undone after."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    with Step("process"):
        os.setsid()
        os.dup2(tell, order.CONTROL, inheritable=False)
        kernel.close_from(order.CONTROL + 1)
    with Step("directory"):
        os.chdir(wanted["workspace"] + b"/" + wanted["cwd"])
    with Step("limits"):
        _limit(resource.RLIMIT_CORE, 0)
        _limit(resource.RLIMIT_FSIZE, wanted["file_size"])
        _limit(resource.RLIMIT_NOFILE, wanted["open_files"])
        _limit(resource.RLIMIT_NPROC, wanted["processes"])
    with Step("landlock"):
        if landlock.abi() > 0:
            landlock.restrict(_landlock_rules(wanted))
    with Step("seccomp"):
        seccomp.install(_prepared["filter"])


def _limit(which: int, value: int) -> None:
    hard = resource.getrlimit(which)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(which, (value, value))


def _landlock_rules(wanted: Order) -> list[tuple[str, int]]:
    """The view once more, as a second wall: where the command may write at all."""
    changed = [wanted["workspace"], os.path.realpath(wanted["home"])]
    rules = [(os.fsdecode(path), landlock.EVERYTHING) for path in changed]
    rules += [(path, landlock.EVERYTHING) for path in ("/tmp", "/var/tmp", "/run", "/dev/shm")]
    return [("/", landlock.READ), ("/dev", landlock.USE), *rules]


def _send(control: _socket.socket, report: Report) -> None:
    try:
        control.send(marshal.dumps(report))
    except OSError:
        os._exit(1)  # the engine is gone, and with it all reason to go on


class _Supervisor:
    """Waits for the command's end and for the engine's word; reaps what the command leaves to pid 1."""

    def __init__(self, control: _socket.socket, child: int, forwarder: int, bound: int) -> None:
        self._control = control
        self._child = child
        self._forwarder = forwarder
        self._memory = bound
        self._terminating = False
        self._woken, wake = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(self._woken, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)

    def run(self) -> NoReturn:
        poll = select.poll()
        poll.register(order.CONTROL, select.POLLIN)
        poll.register(self._woken, select.POLLIN)
        self._reap()  # what ended before the handler was there
        while True:
            ready = poll.poll(_WATCH_MS if self._memory else None)
            if self._memory and memory.exceeds(memory.everyone(), self._memory):
                _send(self._control, ("memory",))
                os._exit(0)
            for descriptor, _ in ready:
                if descriptor == order.CONTROL:
                    self._obey()
                else:
                    os.read(self._woken, 512)
                    self._reap()

    def _obey(self) -> None:
        word = self._control.recv(64)
        match word:
            case order.INTERRUPT:
                _signal_group(self._child, signal.SIGINT)
            case order.TERMINATE:
                self._terminate()
            case _:
                os._exit(0)

    def _terminate(self) -> None:
        self._terminating = True
        if self._forwarder:
            os.kill(self._forwarder, signal.SIGKILL)
        try:
            os.kill(-1, signal.SIGTERM)
        except ProcessLookupError:
            os._exit(0)

    def _reap(self) -> None:
        """While terminating, others than the command itself get the rest of the grace too."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                os._exit(0)
            if pid == 0:
                return
            if pid == self._child:
                code = os.waitstatus_to_exitcode(status)
                _send(self._control, ("exit", code if code >= 0 else 128 - code))
                if not self._terminating:
                    os._exit(0)


def _signal_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return
