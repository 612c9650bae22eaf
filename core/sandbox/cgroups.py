"""A control group for each box where the machine lets us make one: it bounds processes (root too) and memory.

Version 2 where its controllers are delegated, else version 1. What can't be made by really trying is not there.
Runs in `python -I -S`.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ROOT = b"/sys/fs/cgroup"
_PREFIX = b"agent-tui-"


class Place:
    """A directory of the cgroup file system in which groups can be made, for the controllers it offers there."""

    def __init__(self, directory: bytes, controllers: frozenset[bytes], version: int) -> None:
        self.directory = directory
        self.controllers = controllers
        self.version = version


class Group:
    """One box's group: a directory for each place."""

    def __init__(self, directories: list[tuple[bytes, Place]]) -> None:
        self._directories = directories

    @property
    def joins(self) -> list[bytes]:
        """The files into which a process writes 0 to join."""
        return [directory + b"/cgroup.procs" for directory, _ in self._directories]

    def kills(self) -> int:
        """How many of its processes the kernel ended for memory."""
        for directory, place in self._directories:
            if b"memory" in place.controllers:
                table = directory + (b"/memory.events" if place.version == 2 else b"/memory.oom_control")
                return _field(table, b"oom_kill")
        return 0

    def remove(self) -> None:
        for directory, _ in self._directories:
            try:
                os.rmdir(directory)
            except OSError:
                continue


class Groups:
    """Finds out where groups can be made, and makes one for each box."""

    def __init__(self, places: Sequence[Place] | None = None) -> None:
        self._places = list(_usable()) if places is None else list(places)
        self._made = 0
        for place in self._places:
            _sweep(place.directory)

    def has(self, controller: bytes) -> bool:
        return any(controller in place.controllers for place in self._places)

    def make(self, processes: int, memory: int) -> Group:
        """`OSError` when a place that was usable no longer is."""
        self._made += 1
        directories = []
        for place in self._places:
            if b"pids" not in place.controllers and not memory:
                continue
            directory = b"%s/%s%d-%d" % (place.directory, _PREFIX, os.getpid(), self._made)
            os.mkdir(directory)
            directories.append((directory, place))
            for name, value in _settings(place, processes, memory):
                _write(directory + b"/" + name, b"%d" % value)
        return Group(directories)


def _settings(place: Place, processes: int, memory: int) -> Iterator[tuple[bytes, int]]:
    if b"pids" in place.controllers:
        yield b"pids.max", processes
    if b"memory" in place.controllers and memory:
        yield (b"memory.max" if place.version == 2 else b"memory.limit_in_bytes"), memory


def _usable() -> Iterator[Place]:
    """Nearest first: our own group or one above it. One place for each controller."""
    found: set[bytes] = set()
    for candidate in _candidates():
        new = Place(candidate.directory, candidate.controllers - found, candidate.version)
        if new.controllers and _try(new):
            found |= new.controllers
            yield new


def _candidates() -> Iterator[Place]:
    wanted = frozenset({b"pids", b"memory"})
    for line in _read(b"/proc/self/cgroup").splitlines():
        _, names, path = line.split(b":", 2)
        if names:
            offered = wanted & frozenset(names.split(b","))
            for name in offered:
                yield Place(_ROOT + b"/" + names + path.rstrip(b"/"), frozenset({name}), 1)
            continue
        for root in (_ROOT, _ROOT + b"/unified"):
            above = path.rstrip(b"/")
            while above:
                directory = root + above
                yield Place(directory, wanted & frozenset(_read(directory + b"/cgroup.subtree_control").split()), 2)
                above = above.rpartition(b"/")[0]
            yield Place(root, wanted & frozenset(_read(root + b"/cgroup.subtree_control").split()), 2)


def _try(place: Place) -> bool:
    """Whether a process can really be put into a group made here."""
    directory = b"%s/%s%d-try" % (place.directory, _PREFIX, os.getpid())
    try:
        os.mkdir(directory)
    except OSError:
        return False
    try:
        for name, value in _settings(place, 64, 1 << 30):
            _write(directory + b"/" + name, b"%d" % value)
        return _can_join(directory + b"/cgroup.procs")
    except OSError:
        return False
    finally:
        os.rmdir(directory)


def _sweep(directory: bytes) -> None:
    """Remove the groups of servers that were killed. A group in which anything lives can't be removed."""
    for name in os.listdir(directory):
        owner = name.removeprefix(_PREFIX).partition(b"-")[0]
        if name.startswith(_PREFIX) and owner.isdigit() and not os.path.exists(b"/proc/" + owner):
            try:
                os.rmdir(directory + b"/" + name)
            except OSError:
                continue


def _can_join(table: bytes) -> bool:
    child = os.fork()
    if child == 0:
        try:
            _write(table, b"0")
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def _field(table: bytes, name: bytes) -> int:
    for line in _read(table).splitlines():
        key, _, value = line.partition(b" ")
        if key == name:
            return int(value)
    return 0


def _read(path: bytes) -> bytes:
    try:
        with open(path, "rb") as table:
            return table.read()
    except OSError:
        return b""


def _write(path: bytes, text: bytes) -> None:
    table = os.open(path, os.O_WRONLY)
    try:
        os.write(table, text)
    finally:
        os.close(table)
