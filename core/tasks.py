"""Background tasks and their owner, which references every task until it ends and can cancel all of them.

Use `asyncio.TaskGroup` for tasks that end with the block that starts them, and an owner for tasks that outlive it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

A = TypeVar("A")
T = TypeVar("T")


class TaskOwner:
    """Owns the tasks that are started through it."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Start a task in the running loop and return it."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def spawn(self, work: Coroutine[Any, Any, Any], *, name: str) -> None:
        """Start a task without returning it."""
        _ = self.start(work, name=name)

    @contextmanager
    def include_current_task(self) -> Iterator[asyncio.Task[Any]]:
        """Own the current task during a block: asyncio starts one of its own for each connection that it accepts."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            yield task
        finally:
            self._tasks.discard(task)

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def is_busy(self) -> bool:
        """True while a task runs."""
        return bool(self._tasks)

    async def wait(self) -> None:
        """Wait until all tasks have ended. Exceptions stay in the tasks."""
        if self._tasks:
            await asyncio.wait(tuple(self._tasks))

    def request_cancel(self) -> None:
        """Cancel all tasks without waiting for their end."""
        for task in tuple(self._tasks):
            task.cancel()

    async def cancel(self, *, limit: float | None = None) -> None:
        """Cancel all tasks and wait for their end, at most `limit` seconds."""
        await cancel_tasks(self._tasks, limit=limit)


async def cancel_tasks(tasks: Iterable[asyncio.Task[Any]], *, limit: float | None = None) -> None:
    """Cancel tasks and wait for their end, at most `limit` seconds. Exceptions stay in the tasks."""
    waiting = set(tasks)
    for task in waiting:
        task.cancel()
    if waiting:
        await asyncio.wait(waiting, timeout=limit)


async def run_each(work: Callable[[A], Coroutine[Any, Any, None]], arguments: Iterable[A], *, at_once: int) -> None:
    """Run `work` with each argument, begun in their order and so many at once. The first exception, or a cancellation,
    stops all of them."""
    waiting = iter(arguments)

    async def go_on() -> None:
        for argument in waiting:
            await work(argument)

    tasks = [asyncio.ensure_future(go_on()) for _ in range(at_once)]
    try:
        await asyncio.gather(*tasks)
    finally:
        await cancel_tasks(tasks)


async def finish_in_thread(work: Callable[[A], T], argument: A) -> T:
    """Run `work` in a thread and return its result.

    A thread can't be stopped, so a cancellation takes effect when it has ended: a lock that the caller holds protects
    the data until then."""
    working = asyncio.ensure_future(asyncio.to_thread(work, argument))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.gather(working, return_exceptions=True)
        raise


def is_loop_running() -> bool:
    """True where tasks can be started: in a running event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
