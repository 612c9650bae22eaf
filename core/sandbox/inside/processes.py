"""How much memory the processes of a box hold together: a quick sum, and an exact one if that is too much (SAFETY R4).

The quick sum counts what forked processes share once for each of them. Runs in `python -I -S -B`.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # typing itself takes longer to load than all the rest here
if TYPE_CHECKING:
    from collections.abc import Iterable

_PAGE = os.sysconf("SC_PAGE_SIZE")


def list_processes() -> list[int]:
    """Return the pids of all processes; from pid 1 of a box these are its own."""
    return [int(name) for name in os.listdir(b"/proc") if name.isdigit()]


def exceeds_memory(processes: Iterable[int], bound: int) -> bool:
    """True if the processes hold more than `bound` bytes together."""
    looked_at = [*processes]
    return sum(map(read_resident_bytes, looked_at)) > bound and sum(map(read_proportional_bytes, looked_at)) > bound


def read_resident_bytes(process: int) -> int:
    """Return the bytes that are not mapped from files; 0 for a process that is gone."""
    try:
        with open(f"/proc/{process}/statm", "rb") as table:
            _, held, shared, *_ = map(int, table.read().split())
    except (OSError, ValueError):
        return 0
    return (held - shared) * _PAGE


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
