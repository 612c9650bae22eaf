"""Other processes of this user: whether one lives, those that descend from a command, and what a command starts with.

A command's descendants are known by a mark in their environment. macOS shows nobody the environment of the system's own
programs, so the family of a command is gathered there while it runs: by parents, process groups and sessions.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import psutil  # type: ignore[import-untyped]

HIDES_ENVIRONMENTS = sys.platform == "darwin"


def is_process_alive(pid: int) -> bool:
    """True if there is a process with this id, whoever owns it."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def list_descendants(pid: int) -> Iterator[psutil.Process]:
    """Yield the living descendants of a process, as far as their parents live."""
    import psutil

    with suppress(psutil.Error):
        yield from psutil.Process(pid).children(recursive=True)


def find_marked_processes(variable: str, value: str) -> Iterator[psutil.Process]:
    """Yield the processes that have a variable with this value in their environment."""
    import psutil

    for pid in psutil.pids():
        with suppress(psutil.Error, OSError):
            process = psutil.Process(pid)
            if process.environ().get(variable) == value and process.status() != psutil.STATUS_ZOMBIE:
                yield process


def list_command_lines(processes: Iterable[psutil.Process]) -> tuple[str, ...]:
    """Return the command lines of processes, without those that are gone or have only ended."""
    import psutil

    lines = list[str]()
    for process in processes:
        with suppress(psutil.Error):
            lines.append(" ".join(process.cmdline()))
    return tuple(filter(None, lines))


class SocketOwner(NamedTuple):
    """A process that holds a socket: its command line, and its own id with those of its ancestors."""

    command: str
    line: frozenset[int]


def find_socket_owners(inodes: Collection[int]) -> dict[int, SocketOwner]:
    """Return the processes of this user that hold these sockets, by inode. Linux only."""
    owners: dict[int, SocketOwner] = {}
    links = {f"socket:[{inode}]": inode for inode in inodes}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            for descriptor in (process / "fd").iterdir():
                inode = links.get(_read_link(descriptor), 0)
                if inode and inode not in owners:
                    words = (process / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
                    line = frozenset(_list_ancestors(int(process.name)))
                    owners[inode] = SocketOwner(" ".join(map(os.fsdecode, words)), line)
    return owners


def _list_ancestors(pid: int) -> Iterator[int]:
    """Yield the id of a process and those of its ancestors."""
    while pid > 0:
        yield pid
        status = Path(f"/proc/{pid}/stat").read_bytes()
        pid = int(status.rpartition(b")")[2].split()[1])


def _read_link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:  # it was closed meanwhile
        return ""


def kill_process(process: psutil.Process) -> None:
    """Kill a process unless its id has passed to another one."""
    import psutil

    with suppress(psutil.Error):
        process.kill()


class ProcessFamily:
    """The processes that descend from one that is started after this object is made.

    `look` has to be called while they run: it adds what is new since the last call, and whose parent, group or session
    is of the family. A process whose parents all ended between two calls, and that left the session, is missed.
    """

    def __init__(self) -> None:
        import psutil

        self._seen = frozenset(psutil.pids())
        self._members: dict[int, psutil.Process] = {}
        self._groups: set[int] = set()
        self._own_groups = {os.getpgid(0), os.getsid(0)}  # whoever is in them need not be of the family

    def add(self, pid: int) -> None:
        """Add a process, with its group and session."""
        import psutil

        with suppress(psutil.Error, OSError):
            self._members[pid] = psutil.Process(pid)
            self._groups |= {os.getpgid(pid), os.getsid(pid)} - self._own_groups

    def look(self) -> None:
        """Add the processes that have joined the family."""
        import psutil

        pids = frozenset(psutil.pids())
        for pid in self._members.keys() & pids:
            with suppress(OSError):  # one that was known may lead a session of its own by now
                groups = {os.getpgid(pid), os.getsid(pid)} if self._members[pid].is_running() else set()
                self._groups |= groups - self._own_groups
        new_pids = sorted(pids - self._seen - self._members.keys())
        while joined := [pid for pid in new_pids if self._belongs(pid)]:
            for pid in joined:
                self.add(pid)
            new_pids = [pid for pid in new_pids if pid not in self._members and pid not in joined]
        self._seen = pids

    def _belongs(self, pid: int) -> bool:
        import psutil

        with suppress(psutil.Error, OSError):
            is_related = os.getpgid(pid) in self._groups or os.getsid(pid) in self._groups
            return is_related or psutil.Process(pid).ppid() in self._members
        return False

    def list_living(self) -> list[psutil.Process]:
        """List the members that still run; a zombie does not."""
        import psutil

        living = []
        for process in self._members.values():
            with suppress(psutil.Error):
                living += [process] if process.is_running() and process.status() != psutil.STATUS_ZOMBIE else []
        return living


def restore_signals() -> None:
    """Restore the signals that end a command: a program in the background of a script ignores some, and a shell can
    neither trap nor restore what was ignored when it started."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
