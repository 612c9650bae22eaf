"""How much a piece of work does, counted instead of timed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


def steps_of(work: Callable[[], object]) -> int:
    """How many functions are called by it, those of C (and so of the system) as well."""
    count = 0

    def on_event(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(on_event)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@contextmanager
def few_calls_deep(most: int) -> Iterator[None]:
    """Within it, no call lies more than so many calls deeper than this one."""
    frame: FrameType | None = sys._getframe()
    depth = 0
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(depth + most)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
