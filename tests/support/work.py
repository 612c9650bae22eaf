"""How much work something is, counted in lines of Python that are run: a busy machine changes a time, but not this.

Work inside of C (a search in a string, a comparison of lists) counts as nothing; where that matters, a test counts what
is handed to it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any


@dataclass
class Work:
    """`lines` that this thread has run, each as often as it was run."""

    lines: int = 0


@contextmanager
def counted() -> Iterator[Work]:
    """Counts what this thread does in the block, coroutines that go on in it included."""
    work = Work()

    def count(_frame: FrameType, event: str, _argument: Any) -> Any:
        work.lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        yield work
    finally:
        sys.settrace(before)


def lines_run(something: Callable[[], object]) -> int:
    """The lines that one call runs."""
    with counted() as work:
        something()
    return work.lines
