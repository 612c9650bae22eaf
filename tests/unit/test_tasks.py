from __future__ import annotations

import asyncio

import pytest

from core.tasks import TaskOwner, cancel_tasks, is_loop_running, run_each


async def test_what_an_owner_started_is_busy_until_it_ends_and_ends_when_it_is_cancelled():
    owner, ended = TaskOwner(), []

    async def wait_for_good() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    owner.spawn(wait_for_good(), name="first")
    second = owner.start(wait_for_good(), name="second")
    assert owner.is_busy
    await asyncio.sleep(0)
    await owner.cancel()
    assert (ended, second.cancelled()) == ([True, True], True)
    assert not owner.is_busy


async def test_what_a_task_raises_is_left_in_it():
    owner = TaskOwner()

    async def fail() -> None:
        raise ValueError("no")

    task = owner.start(fail(), name="failing")
    await asyncio.wait({task})
    await cancel_tasks([task])
    with pytest.raises(ValueError, match="no"):
        task.result()


async def test_a_task_that_does_not_end_is_waited_for_no_longer_than_the_limit():
    owner, release = TaskOwner(), asyncio.Event()

    async def insist() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    task = owner.start(insist(), name="stubborn")
    await asyncio.sleep(0)
    await owner.cancel(limit=0.01)
    assert owner.is_busy
    release.set()
    await task


def test_without_a_loop_nothing_can_be_started():
    assert not is_loop_running()


async def test_so_many_run_at_once_and_begin_in_their_order():
    running, most, begun = 0, 0, list[int]()

    async def work(number: int) -> None:
        nonlocal running, most
        begun.append(number)
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    await run_each(work, range(7), at_once=3)
    assert (begun, most, running) == ([*range(7)], 3, 0)


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_failure_and_a_cancellation_stop_all_of_them(is_cancelled):
    stopped, both_run = list[int](), asyncio.Event()

    async def work(number: int) -> None:
        if number == 2:
            both_run.set()
            if not is_cancelled:
                raise ValueError(number)
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(number)

    task = asyncio.ensure_future(run_each(work, (1, 2, 3), at_once=2))
    await both_run.wait()
    if is_cancelled:
        task.cancel()
    with pytest.raises(asyncio.CancelledError if is_cancelled else ValueError):
        await task
    assert stopped == ([1, 2] if is_cancelled else [1])
