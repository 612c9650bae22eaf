"""The slot of a session's turn: whenever an interruption comes, the turn ends by its own words."""

from __future__ import annotations

import asyncio

import pytest

from core.engine.session.tasks import TurnSlot
from core.errors import CommandRejected


async def play(ended: list[str]) -> None:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        ended.append("interrupted")


async def fail_to_prepare(slot: TurnSlot) -> None:
    async with slot.reserve():
        slot.interrupt()
        raise CommandRejected("it can't be prepared")


async def test_a_turn_that_is_interrupted_before_its_first_step_still_ends_as_one():
    slot, ended = TurnSlot(lambda: False), list[str]()
    async with slot.reserve():
        pass
    slot.start(play(ended))
    slot.interrupt()
    await slot.wait_ended()
    assert ended == ["interrupted"]


async def test_a_turn_that_is_interrupted_while_it_is_prepared_ends_as_soon_as_it_begins():
    slot, ended = TurnSlot(lambda: False), list[str]()
    async with slot.reserve():
        slot.interrupt()
    slot.start(play(ended))
    await slot.wait_ended()
    assert ended == ["interrupted"]


async def test_an_interruption_does_not_outlive_the_turn_that_it_was_meant_for():
    slot, ended = TurnSlot(lambda: False), list[str]()
    with pytest.raises(CommandRejected):
        await fail_to_prepare(slot)
    slot.interrupt()
    async with slot.reserve():
        pass
    done = asyncio.Event()

    async def work() -> None:
        await asyncio.sleep(0)
        done.set()

    slot.start(work())
    await slot.wait_ended()
    assert done.is_set()
    assert ended == []
