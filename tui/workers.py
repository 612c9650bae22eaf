"""Workers of the screen: work is handed over as a function, so that no coroutine is left that was never awaited.

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


def start_worker(
    node: DOMNode,
    work: Callable[[*Ts], Coroutine[Any, Any, T]],
    *args: *Ts,
    group: str,
    exclusive: bool = False,
    exit_on_error: bool = True,
) -> Worker[T]:
    """Run `work(*args)` as a worker of `node`, named after its `group`.

    `exclusive`: replaces other workers of that group. An exception ends the program, unless `exit_on_error` is False
    and the worker reports it.
    """
    task: Any = partial(work, *args)
    return node.run_worker(task, name=group, group=group, exclusive=exclusive, exit_on_error=exit_on_error)
