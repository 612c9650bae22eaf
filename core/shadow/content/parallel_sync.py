"""Concurrent small syncs: a file system writes the journal entries of concurrent syncs together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

_MAX_SERIAL = 16
_MAX_THREADS = 16

T = TypeVar("T")


def run_for_each(items: Sequence[T], do: Callable[[T], None]) -> None:
    """Call `do` for every item, in threads if there are many; raise the first item's error when all are done."""
    if len(items) <= _MAX_SERIAL:
        for item in items:
            do(item)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_MAX_THREADS, "disk") as pool:
        waiting = [pool.submit(do, item) for item in items]
    for future in waiting:
        future.result()
