"""How much memory the processes of a box hold together: a quick look, and an exact one where that is too much (R4).

The quick look counts what forked processes share once for each of them. Runs in `python -I -S`.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # typing itself takes longer to load than all the rest here
if TYPE_CHECKING:
    from collections.abc import Iterable

_PAGE = os.sysconf("SC_PAGE_SIZE")


def everyone() -> list[int]:
    """All processes that there are; from pid 1 of a box these are its own."""
    return [int(name) for name in os.listdir(b"/proc") if name.isdigit()]


def exceeds(processes: Iterable[int], bound: int) -> bool:
    """Whether they hold more than so many bytes."""
    looked_at = [*processes]
    return sum(map(resident, looked_at)) > bound and sum(map(proportional, looked_at)) > bound


def resident(process: int) -> int:
    """Bytes that are not mapped from files; 0 for a process that is gone."""
    try:
        with open(f"/proc/{process}/statm", "rb") as table:
            _, held, shared, *_ = map(int, table.read().split())
    except (OSError, ValueError):
        return 0
    return (held - shared) * _PAGE


def proportional(process: int) -> int:
    """The same, with what it shares with others divided by their number, where the kernel tells."""
    try:
        with open(f"/proc/{process}/smaps_rollup", "rb") as table:
            for line in table:
                if line.startswith(b"Pss_Anon:"):
                    return int(line.split()[1]) << 10
    except (OSError, ValueError):
        pass
    return resident(process)
