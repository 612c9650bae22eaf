"""The processes of a box: their limits, signals, descent, memory, and control groups.

Memory is a quick sum, and an exact one if that is too much: the quick one counts memory shared by forked processes once
for each of them. A control group bounds processes (also root's) and memory where the machine allows one: version 2
where its controllers are delegated, else version 1; a group is available if creating one works. Runs in `python -I -S
-B`.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import time

from core.sandbox.inside import kernel

TYPE_CHECKING = False  # importing `typing` takes longer than everything else here
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from core.sandbox.inside.messages import CommandLaunch

_PAGE = os.sysconf("SC_PAGE_SIZE")
_ROOT = b"/sys/fs/cgroup"
_PREFIX = b"agent-tui-"
_MAX_COMMANDS, _MAX_COMMAND = 16, 200  # command lines of a report, and bytes of one
_EXEC_ATTEMPTS, _EXEC_PAUSE = 4, 0.005  # seconds between looks at a process that has no command line of its own yet


def list_processes() -> list[int]:
    """Return the pids of all visible processes; in pid 1 of a box, those of the box."""
    return [int(name) for name in os.listdir(b"/proc") if name.isdigit()]


def exceeds_memory(processes: Iterable[int], limit: int) -> bool:
    """True if the processes hold more than `limit` bytes together."""
    looked_at = [*processes]
    return sum(map(read_resident_bytes, looked_at)) > limit and sum(map(read_proportional_bytes, looked_at)) > limit


def read_resident_bytes(process: int) -> int:
    """Return the resident bytes that are not mapped from files; 0 for a process that is gone."""
    try:
        with open(f"/proc/{process}/statm", "rb") as table:
            _, resident_pages, shared_pages, *_ = map(int, table.read().split())
    except (OSError, ValueError):
        return 0
    return (resident_pages - shared_pages) * _PAGE


def read_proportional_bytes(process: int) -> int:
    """Return the resident bytes with shared pages divided by the number of sharers, if the kernel reports that."""
    try:
        with open(f"/proc/{process}/smaps_rollup", "rb") as table:
            for line in table:
                if line.startswith(b"Pss_Anon:"):
                    return int(line.split()[1]) << 10
    except (OSError, ValueError):
        pass
    return read_resident_bytes(process)


def list_descendants(ancestor: int) -> list[int]:
    """Return the pids of all descendants of a process, from /proc; the process itself is not included."""
    children: dict[int, list[int]] = {}
    for name in os.listdir(b"/proc"):
        if name.isdigit():
            try:
                with open(b"/proc/" + name + b"/stat", "rb") as table:
                    parent = int(table.read().rpartition(b")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            children.setdefault(parent, []).append(int(name))
    descendants: list[int] = []
    waiting = [ancestor]
    while waiting:
        pids = children.get(waiting.pop(), [])
        descendants += pids
        waiting += pids
    return descendants


def read_commands(pids: Iterable[int], arguments: list[bytes]) -> list[bytes]:
    """Return the command lines of processes, shortened, without those that are gone or have only ended. Of a shell that
    was only forked from the command itself, started by `arguments`, the line would say nothing."""
    own_line = b" ".join(arguments)[:_MAX_COMMAND]
    lines: list[bytes | None] = []
    for _ in range(_EXEC_ATTEMPTS):
        lines = [_read_command(pid) for pid in sorted(pids)]
        if own_line not in lines and b"" not in lines:
            break
        time.sleep(_EXEC_PAUSE)  # one that was just forked is about to execute its program
    return [b"a subshell" if line == own_line else line for line in lines if line][:_MAX_COMMANDS]


def _read_command(pid: int) -> bytes | None:
    """Return the command line of a process; empty: it has ended, or is executing its program just now; None: it is
    gone."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as table:
        return table.read(_MAX_COMMAND).rstrip(b"\0").replace(b"\0", b" ")
    return None


def send_signal(pid: int, number: int) -> None:
    """Signal a process, if it is still there and may be signalled."""
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def signal_group(group: int, number: int) -> None:
    """Signal a process group, if it is still there and may be signalled."""
    with contextlib.suppress(OSError):
        os.killpg(group, number)


def set_limits(message: CommandLaunch, processes: int | None) -> None:
    """Set a command's soft and hard resource limits, within the present hard ones; `processes` None: unlimited."""
    limits = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, message["file_size"])]
    limits.append((resource.RLIMIT_NOFILE, message["open_files"]))
    if processes is not None:
        limits.append((resource.RLIMIT_NPROC, processes))
    for kind, value in limits:
        hard = resource.getrlimit(kind)[1]
        limit = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (limit, limit))


def open_child_signals() -> int:
    """Return a descriptor that becomes readable when a child of this process ends; it does not block."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    return woken


class CgroupParent:
    """A directory of the cgroup file system in which groups can be created, and its controllers."""

    def __init__(self, directory: bytes, controllers: frozenset[bytes], version: int) -> None:
        self.directory = directory
        self.controllers = controllers
        self.version = version


class BoxCgroup:
    """One box's control group: a directory below each parent."""

    def __init__(self, directories: list[tuple[bytes, CgroupParent]]) -> None:
        self._directories = directories

    @property
    def process_files(self) -> list[bytes]:
        """The files into which a process writes 0 to join."""
        return [directory + b"/cgroup.procs" for directory, _ in self._directories]

    def count_oom_kills(self) -> int:
        """Return the number of its processes that the kernel killed for memory."""
        for directory, parent in self._directories:
            if b"memory" in parent.controllers:
                table = directory + (b"/memory.events" if parent.version == 2 else b"/memory.oom_control")
                return _read_counter(table, b"oom_kill")
        return 0

    def remove(self) -> None:
        for directory, _ in self._directories:
            with contextlib.suppress(OSError):
                os.rmdir(directory)


class CgroupFactory:
    """Finds directories in which groups can be created, and creates one group per box."""

    def __init__(self, parents: Sequence[CgroupParent] | None = None) -> None:
        self._parents = list(_find_parents()) if parents is None else list(parents)
        self._count = 0
        for parent in self._parents:
            _remove_abandoned(parent.directory)

    def has_controller(self, controller: bytes) -> bool:
        return any(controller in parent.controllers for parent in self._parents)

    def make(self, processes: int, memory: int) -> BoxCgroup:
        """Make a group of at most `processes`, and `memory` bytes (0: unbounded). Raises OSError."""
        self._count += 1
        directories = []
        for parent in self._parents:
            if b"pids" not in parent.controllers and not memory:
                continue
            directory = b"%s/%s%d-%d" % (parent.directory, _PREFIX, os.getpid(), self._count)
            os.mkdir(directory)
            directories.append((directory, parent))
            for name, value in _list_limits(parent, processes, memory):
                kernel.write_setting(directory + b"/" + name, b"%d" % value)
        return BoxCgroup(directories)


def _list_limits(parent: CgroupParent, processes: int, memory: int) -> Iterator[tuple[bytes, int]]:
    if b"pids" in parent.controllers:
        yield b"pids.max", processes
    if b"memory" in parent.controllers and memory:
        yield (b"memory.max" if parent.version == 2 else b"memory.limit_in_bytes"), memory


def _find_parents() -> Iterator[CgroupParent]:
    """Yield one parent per controller, nearest first: our own group or one above it."""
    covered_controllers: set[bytes] = set()
    for candidate in _list_candidates():
        new = CgroupParent(candidate.directory, candidate.controllers - covered_controllers, candidate.version)
        if new.controllers and _can_make_groups(new):
            covered_controllers |= new.controllers
            yield new


def _list_candidates() -> Iterator[CgroupParent]:
    controllers = frozenset({b"pids", b"memory"})
    for line in _read_file(b"/proc/self/cgroup").splitlines():
        _, names, path = line.split(b":", 2)
        if names:
            available_controllers = controllers & frozenset(names.split(b","))
            for name in available_controllers:
                yield CgroupParent(_ROOT + b"/" + names + path.rstrip(b"/"), frozenset({name}), 1)
            continue
        for root in (_ROOT, _ROOT + b"/unified"):
            parts = path.rstrip(b"/").split(b"/")
            for count in range(len(parts), 0, -1):
                directory = root + b"/".join(parts[:count])
                available_controllers = controllers & frozenset(
                    _read_file(directory + b"/cgroup.subtree_control").split()
                )
                yield CgroupParent(directory, available_controllers, 2)


def _can_make_groups(parent: CgroupParent) -> bool:
    """True if a process can actually join a group created in this directory."""
    directory = b"%s/%s%d-try" % (parent.directory, _PREFIX, os.getpid())
    try:
        os.mkdir(directory)
    except OSError:
        return False
    try:
        for name, value in _list_limits(parent, 64, 1 << 30):
            kernel.write_setting(directory + b"/" + name, b"%d" % value)
        return _can_join(directory + b"/cgroup.procs")
    except OSError:
        return False
    finally:
        os.rmdir(directory)


def _remove_abandoned(directory: bytes) -> None:
    """Remove the groups of servers that were killed. A group with a process in it can't be removed."""
    for name in os.listdir(directory):
        owner = name.removeprefix(_PREFIX).partition(b"-")[0]
        if name.startswith(_PREFIX) and owner.isdigit() and not os.path.exists(b"/proc/" + owner):
            with contextlib.suppress(OSError):
                os.rmdir(directory + b"/" + name)


def _can_join(table: bytes) -> bool:
    child = os.fork()
    if child == 0:
        try:
            kernel.write_setting(table, b"0")
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def _read_counter(table: bytes, name: bytes) -> int:
    counters = dict(line.split(b" ", 1) for line in _read_file(table).splitlines() if b" " in line)
    return int(counters.get(name, 0))


def _read_file(path: bytes) -> bytes:
    try:
        with open(path, "rb") as table:
            return table.read()
    except OSError:
        return b""
