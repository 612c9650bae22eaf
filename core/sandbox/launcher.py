"""The process that stands between the engine and a box that is not ours to be pid 1 of: bubblewrap's, or Landlock's.

It starts the command's process, tells the engine what becomes of it, and takes in what the command leaves behind
(a subreaper): when the command has ended, when the engine says so and when the engine is gone, it kills all of it.
Runs in `python -I -S`; the words of its protocol are those of `core.sandbox.order`.
"""

from __future__ import annotations

import _socket
import ctypes
import fcntl
import marshal
import os
import resource
import select
import signal

from core.sandbox import cgroups, kernel, landlock, memory, mounts, order, seccomp, view

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn, TypedDict

    class Ground(TypedDict):
        """What bubblewrap is started on, instead of the machine: its directories as overlays, and a workspace.

        Paths are absolute and real; `lowers` topmost first. Without an upper (b"") the layer is in memory, as is that
        of what is `masked` without `masks`.
        """

        workspace: bytes
        lowers: list[bytes]
        upper: bytes
        work: bytes
        masked: list[bytes]
        masks: bytes
        readable: list[bytes]
        cache: bytes

    class LaunchOrder(TypedDict):
        """What to execute, and on which `ground`: None is the machine as it is.

        `bubblewrap`: the arguments are bubblewrap's, whose status comes on descriptor STATUS, and whose innermost
        shell says on READY that the command runs. `families` are those of the socket calls that stay allowed, `rules`
        Landlock's, None for bubblewrap. `scratch` bounds what the ground has in memory.
        """

        arguments: list[bytes]
        env: dict[bytes, bytes]
        cwd: bytes
        bubblewrap: bool
        ground: Ground | None
        scratch: int
        rules: list[tuple[str, int]] | None
        families: list[int]
        processes: int
        open_files: int
        file_size: int
        memory: int


# The descriptors of the process that is started, besides the command's own three.
STATUS, READY, FILTER = 3, 4, 5
RUNS = b"r"
_WATCH_MS = 250
_END_SECONDS = 5.0
_PAUSE_MS = 5
_PR_SET_CHILD_SUBREAPER, _HIGH = 36, 16
_NEW_USER = 0x10000000


def main(order_file: int, control: int) -> NoReturn:
    """Both are descriptors: an anonymous file with the order in `marshal`'s format, and the engine's socket."""
    with os.fdopen(order_file, "rb") as file:
        wanted: LaunchOrder = marshal.load(file)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    engine = _socket.socket(fileno=control)
    status, tell_status = os.pipe()
    ready, tell_ready = os.pipe()
    try:
        group = _make_group(wanted)
    except OSError as error:
        engine.send(marshal.dumps(("failed", "process limit", error.errno or 0, error.strerror or "")))
        os._exit(1)
    child = os.fork()
    if child == 0:
        engine.detach()
        _become(wanted, group, tell_status, tell_ready)
    for each in (tell_status, tell_ready, 0, 1, 2):
        os.close(each)
    _Supervisor(engine, child, wanted, group, (status, ready)).run()


def _make_group(wanted: LaunchOrder) -> cgroups.Group | None:
    """Where groups can't be made, an ordinary user's limit bounds processes; nothing would bound root's."""
    groups = cgroups.Groups()
    if not groups.has(b"pids"):
        if os.getuid() == 0:
            raise OSError(1, "as root, nothing but a pids control group bounds processes, and none can be made here")
        return None
    return groups.make(wanted["processes"], wanted["memory"] if groups.has(b"memory") else 0)


def _become(wanted: LaunchOrder, group: cgroups.Group | None, tell_status: int, tell_ready: int) -> NoReturn:
    """What happens in the child: nothing here returns."""
    step, supervisor = "process", os.getppid()
    try:
        kernel.die_with_parent(signal.SIGKILL)
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        for table in group.joins if group else []:
            _write(table, b"0")
        _arrange(wanted, tell_status, tell_ready)
        tell_ready = READY
        if wanted["ground"] is not None:
            step = "file system"
            _enter_ground(wanted["ground"], wanted["scratch"])
            kernel.die_with_parent(signal.SIGKILL)  # root's rights to files have changed meanwhile, which clears it
            if os.getppid() != supervisor:
                os._exit(1)
        kernel.leave_session_keyring()
        step = "directory"
        os.chdir(wanted["cwd"])
        step = "limits"
        _limit_all(wanted)
        if wanted["rules"] is not None:
            step = "capabilities"
            kernel.drop_capabilities()
            step = "landlock"
            landlock.restrict(wanted["rules"], tcp=bool(wanted["families"]))
            step = "seccomp"
            seccomp.install(seccomp.filter_program(wanted["families"]))
        step = "command"
        os.execve(wanted["arguments"][0], wanted["arguments"], wanted["env"])
    except OSError as error:
        os.write(tell_ready, marshal.dumps(("failed", step, error.errno or 0, error.strerror or str(error))))
    os._exit(127)


def _arrange(wanted: LaunchOrder, tell_status: int, tell_ready: int) -> None:
    """Put the descriptors at their places and close all others. Bubblewrap inherits them, a command does not."""
    program = os.memfd_create("filter")
    os.write(program, seccomp.filter_program(wanted["families"]))
    os.lseek(program, 0, os.SEEK_SET)
    moved = [fcntl.fcntl(each, fcntl.F_DUPFD, _HIGH) for each in (tell_status, tell_ready, program)]
    for place, each in zip((STATUS, READY, FILTER), moved, strict=True):
        os.dup2(each, place, inheritable=wanted["bubblewrap"])
    kernel.close_from(FILTER + 1)


def _enter_ground(ground: Ground, scratch: int) -> None:
    """In namespaces of our own: a root that bubblewrap can bind as a whole. As root no user namespace is needed."""
    user, group = os.getuid(), os.getgid()
    submounts = mounts.take_submounts(ground["workspace"])
    if user == 0:
        kernel.unshare(kernel.NEW_MOUNTS)
    else:
        kernel.unshare(_NEW_USER | kernel.NEW_MOUNTS)
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            _write(f"/proc/self/{name}".encode(), text.encode())
    view.build_ground(ground, scratch, submounts)


def _write(path: bytes, text: bytes) -> None:
    setting = os.open(path, os.O_WRONLY)
    try:
        os.write(setting, text)
    finally:
        os.close(setting)


def _limit_all(wanted: LaunchOrder) -> None:
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, wanted["file_size"])
    _limit(resource.RLIMIT_NOFILE, wanted["open_files"])
    if not wanted["bubblewrap"]:  # inside bubblewrap's namespace the innermost shell sets it: only the box counts there
        _limit(resource.RLIMIT_NPROC, wanted["processes"] + _own_processes())


def _own_processes() -> int:
    """How many processes the user has already; the limit counts them too, threads and all."""
    count = 0
    for name in os.listdir(b"/proc"):
        try:
            if name.isdigit() and os.stat(b"/proc/" + name).st_uid == os.getuid():
                count += len(os.listdir(b"/proc/" + name + b"/task"))
        except OSError:
            continue
    return count


def _limit(which: int, value: int) -> None:
    hard = resource.getrlimit(which)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(which, (value, value))


class _Supervisor:
    def __init__(
        self,
        engine: _socket.socket,
        child: int,
        wanted: LaunchOrder,
        group: cgroups.Group | None,
        pipes: tuple[int, int],
    ) -> None:
        self._engine = engine
        self._child = child
        self._wanted = wanted
        self._group = group
        self._status, self._ready = pipes
        self._told = b""
        self._terminating = False
        self._woken, wake = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(self._woken, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)

    def run(self) -> NoReturn:
        self._wait_until_it_runs()
        poll = select.poll()
        for each in (self._engine.fileno(), self._woken):
            poll.register(each, select.POLLIN)
        self._reap()  # what ended before the handler was there
        bound = self._wanted["memory"]
        while True:
            ready = {descriptor for descriptor, _ in poll.poll(_WATCH_MS if bound else None)}
            if bound and memory.exceeds(below(os.getpid()), bound):
                self._send(("memory",))
                self._finish()
            if self._woken in ready:
                os.read(self._woken, 512)
                self._reap()
            if self._engine.fileno() in ready:
                self._obey()

    def _wait_until_it_runs(self) -> None:
        """Until the command is executed, or a step is known to have failed, or the engine has had enough."""
        poll = select.poll()
        poll.register(self._ready, select.POLLIN)
        poll.register(self._engine.fileno(), select.POLLIN)
        if any(descriptor == self._engine.fileno() for descriptor, _ in poll.poll()):
            self._finish()
        told = os.read(self._ready, 65536)
        if told not in {RUNS, b""}:
            self._fail(marshal.loads(told))
        if told == b"" and self._wanted["bubblewrap"]:
            self._fail(("failed", "bubblewrap", 0, ""))
        self._send(("started",))

    def _fail(self, report: order.Report) -> NoReturn:
        self._send(report)
        self._finish()

    def _obey(self) -> None:
        match self._engine.recv(64):
            case order.INTERRUPT:
                _signal_group(self._leader(), signal.SIGINT)
            case order.TERMINATE:
                self._terminating = True  # others than the command itself get the rest of the grace too
                for pid in below(self._leader()) if self._wanted["bubblewrap"] else below(os.getpid()):
                    _signal(pid, signal.SIGTERM)
            case _:
                self._finish()

    def _leader(self) -> int:
        """Who leads the command's process group: the command, or pid 1 of its box, which signals do not reach."""
        if not self._wanted["bubblewrap"]:
            return self._child
        return number_of(self._status_text(), b'"child-pid":') or self._child

    def _status_text(self) -> bytes:
        os.set_blocking(self._status, False)
        try:
            self._told += os.read(self._status, 65536)
        except BlockingIOError:
            return self._told
        return self._told

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._finish()
            if pid == 0:
                return
            if pid == self._child:
                self._tell_exit(os.waitstatus_to_exitcode(status))
                if not self._terminating:
                    self._finish()

    def _tell_exit(self, code: int) -> None:
        if self._wanted["bubblewrap"]:
            found = number_of(self._status_text(), b'"exit-code":')
            if found is None:
                return  # bubblewrap was killed: nobody knows how the command ended
            code = found
        self._send(("exit", code if code >= 0 else 128 - code))

    def _finish(self) -> NoReturn:
        """Kill what is left, until there is nothing; stopped first, so that nothing starts while others are killed."""
        for _ in range(round(_END_SECONDS * 1000 / _PAUSE_MS)):
            left = list(below(os.getpid()))
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for pid in left:
                    _signal(pid, number)
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                break
            select.poll().poll(_PAUSE_MS)
        kills = 0
        if self._group is not None:
            kills = self._group.kills()
            self._group.remove()
        self._send(("gone", kills))
        os._exit(0)

    def _send(self, report: order.Report) -> None:
        try:
            self._engine.send(marshal.dumps(report))
        except OSError:
            return  # the engine is gone; what is left to do is the same


def number_of(text: bytes, label: bytes) -> int | None:
    """The whole number that follows a label."""
    _, found, rest = text.partition(label)
    digits = rest.strip().split(b"\n")[0].split(b"}")[0].split(b",")[0].strip()
    return int(digits) if found and digits.isdigit() else None


def below(ancestor: int) -> list[int]:
    """The processes that descend from this one, as /proc has them now; it is not among them."""
    children: dict[int, list[int]] = {}
    for name in os.listdir(b"/proc"):
        if name.isdigit():
            try:
                with open(b"/proc/" + name + b"/stat", "rb") as table:
                    parent = int(table.read().rpartition(b")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            children.setdefault(parent, []).append(int(name))
    found: list[int] = []
    waiting = [ancestor]
    while waiting:
        each = children.get(waiting.pop(), [])
        found += each
        waiting += each
    return found


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        return


def _signal_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except OSError:
        return
