"""Work beside the screen's messages: handed over as a function, so that nothing is left of what never begins.

A coroutine that exists already when its worker is replaced, or the program ends, would never be awaited.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar, TypeVarTuple

from textual.dom import DOMNode
from textual.worker import Worker

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def begin(
    node: DOMNode,
    work: Callable[[*Ts], Coroutine[Any, Any, T]],
    *args: *Ts,
    group: str,
    exclusive: bool = False,
    exit_on_error: bool = True,
) -> Worker[T]:
    """Begin `work(*args)` as a worker of `node`, named as its `group`; `exclusive`: in the place of others of that
    group. A fault of it ends the program, but for what is shown in its place (`exit_on_error` False)."""
    begun: Any = partial(work, *args)
    worker: Worker[T] = node.run_worker(
        begun, name=group, group=group, exclusive=exclusive, exit_on_error=exit_on_error
    )
    return worker
