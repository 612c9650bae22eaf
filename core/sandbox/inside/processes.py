"""The processes of a box: their limits, signals, descent, and the memory that they hold together (SAFETY R4).

Memory is a quick sum, and an exact one if that is too much: the quick one counts what forked processes share once for
each of them. Runs in `python -I -S -B`.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal

TYPE_CHECKING = False  # typing itself takes longer to load than all the rest here
if TYPE_CHECKING:
    from collections.abc import Iterable

    from core.sandbox.inside.messages import CommandLaunch

_PAGE = os.sysconf("SC_PAGE_SIZE")


def list_processes() -> list[int]:
    """Return the pids of all processes; from pid 1 of a box these are its own."""
    return [int(name) for name in os.listdir(b"/proc") if name.isdigit()]


def exceeds_memory(processes: Iterable[int], limit: int) -> bool:
    """True if the processes hold more than `limit` bytes together."""
    looked_at = [*processes]
    return sum(map(read_resident_bytes, looked_at)) > limit and sum(map(read_proportional_bytes, looked_at)) > limit


def read_resident_bytes(process: int) -> int:
    """Return the bytes that are not mapped from files; 0 for a process that is gone."""
    try:
        with open(f"/proc/{process}/statm", "rb") as table:
            _, resident_pages, shared_pages, *_ = map(int, table.read().split())
    except (OSError, ValueError):
        return 0
    return (resident_pages - shared_pages) * _PAGE


def read_proportional_bytes(process: int) -> int:
    """Return the same with shared pages divided by the number of sharers, where the kernel tells."""
    try:
        with open(f"/proc/{process}/smaps_rollup", "rb") as table:
            for line in table:
                if line.startswith(b"Pss_Anon:"):
                    return int(line.split()[1]) << 10
    except (OSError, ValueError):
        pass
    return read_resident_bytes(process)


def list_descendants(ancestor: int) -> list[int]:
    """Return the pids that descend from this one, as /proc has them now; it is not among them."""
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


def send_signal(pid: int, number: int) -> None:
    """Signal a process, if it is still there and may be signalled."""
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def signal_group(group: int, number: int) -> None:
    """Signal a process group, if it is still there and may be signalled."""
    with contextlib.suppress(OSError):
        os.killpg(group, number)


def set_limits(message: CommandLaunch, processes: int | None) -> None:
    """Set a command's resource limits, soft and hard, as far as the present hard ones allow; `processes` None: all."""
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
