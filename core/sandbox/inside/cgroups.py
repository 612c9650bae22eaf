"""A control group for each box, where the machine allows one: it bounds processes (also root's) and memory.

Version 2 where its controllers are delegated, else version 1; a group counts as available if making one works.
Runs in `python -I -S -B`.
"""

from __future__ import annotations

import contextlib
import os

from core.sandbox.inside import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ROOT = b"/sys/fs/cgroup"
_PREFIX = b"agent-tui-"


class CgroupParent:
    """A directory of the cgroup file system in which groups can be made, and the controllers it offers."""

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
        """Return how many of its processes the kernel killed for memory."""
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
    """Finds where groups can be made, and makes one for each box."""

    def __init__(self, places: Sequence[CgroupParent] | None = None) -> None:
        self._places = list(_find_parents()) if places is None else list(places)
        self._count = 0
        for parent in self._places:
            _remove_abandoned(parent.directory)

    def has_controller(self, controller: bytes) -> bool:
        return any(controller in parent.controllers for parent in self._places)

    def make(self, processes: int, memory: int) -> BoxCgroup:
        """Make a group of at most `processes`, and `memory` bytes (0: unbounded). Raises OSError."""
        self._count += 1
        directories = []
        for parent in self._places:
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
    """Yield one parent for each controller, nearest first: our own group or one above it."""
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
    """True if a process can really be put into a group made here."""
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
