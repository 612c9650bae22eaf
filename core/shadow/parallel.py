"""Many small waits for the disk at once: a file system writes the journal entries of concurrent syncs together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

_FEW = 16
_AT_ONCE = 16

T = TypeVar("T")


def for_each(items: Sequence[T], do: Callable[[T], None]) -> None:
    """`do` for every item, in no order if there are many; raises what the first of them raised, when all are done."""
    if len(items) <= _FEW:
        for item in items:
            do(item)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_AT_ONCE, "disk") as pool:
        waiting = [pool.submit(do, item) for item in items]
    for each in waiting:
        each.result()
