"""The streams of a connection: an answer that names no call ends the one that waits, unless its own still comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp.shared.message import SessionMessage

from core.mcp.wire import message_repairs
from core.mcp.wire.message_repairs import NO_JSON, repair_message, repair_streams

NAMELESS = {"jsonrpc": "2.0", "id": None, "error": "no"}
FOREIGN = {"jsonrpc": "2.0", "id": 9, "result": {}}


class Ends:
    """Both streams as the SDK has them, and what the server sends through the first of them."""

    def __init__(self) -> None:
        self.sending, self._reading = anyio.create_memory_object_stream[Any](10)
        self._writing, self._sent = anyio.create_memory_object_stream[Any](10)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[Any, Any]]:
        async with self.sending, self._reading, self._writing, self._sent:
            yield self._reading, self._writing

    def say(self, *messages: dict[str, Any]) -> None:
        for message in messages:
            self.sending.send_nowait(SessionMessage(repair_message(message)))


async def ask(writing: Any, *numbers: int) -> None:
    for number in numbers:
        await writing.send(SessionMessage(repair_message({"id": number, "method": "tools/call"})))


@pytest.mark.parametrize(("answer", "code"), [(NAMELESS, 0), (FOREIGN, NO_JSON)])
async def test_a_call_ends_with_an_answer_that_names_no_call_when_nothing_else_comes(monkeypatch, answer, code):
    monkeypatch.setattr(message_repairs, "UNMATCHED_SECONDS", 0.01)
    ends = Ends()
    async with repair_streams(ends.open(), SessionMessage) as (reading, writing), asyncio.timeout(30):
        await ask(writing, 1)
        ends.say(answer)
        ended = (await reading.__anext__()).message
        assert (ended.id, ended.error.code) == (1, code)


async def test_an_answer_to_a_notification_costs_the_call_that_waits_nothing():
    ends = Ends()
    async with repair_streams(ends.open(), SessionMessage) as (reading, writing), asyncio.timeout(30):
        await ask(writing, 1)
        ends.say(NAMELESS, FOREIGN, {"id": 1, "result": {"a": 1}}, NAMELESS)
        assert (await reading.__anext__()).message.result == {"a": 1}
        await ask(writing, 2)
        ends.say({"id": 1, "result": {"late": 1}}, {"id": 2, "result": {"b": 1}})
        assert (await reading.__anext__()).message.result == {"late": 1}
        assert (await reading.__anext__()).message.result == {"b": 1}


@pytest.mark.parametrize("numbers", [(), (1, 2)])
async def test_an_answer_that_may_be_of_nobody_or_of_several_is_passed_over(monkeypatch, numbers):
    monkeypatch.setattr(message_repairs, "UNMATCHED_SECONDS", 0.0)
    ends = Ends()
    async with repair_streams(ends.open(), SessionMessage) as (reading, writing), asyncio.timeout(30):
        await ask(writing, *numbers)
        ends.say(NAMELESS, {"method": "notifications/message"})
        assert (await reading.__anext__()).message.method == "notifications/message"


async def test_a_call_that_was_given_up_has_no_answer_any_more(monkeypatch):
    monkeypatch.setattr(message_repairs, "UNMATCHED_SECONDS", 0.0)
    ends = Ends()
    async with repair_streams(ends.open(), SessionMessage) as (reading, writing), asyncio.timeout(30):
        await ask(writing, 1)
        cancelled = {"method": "notifications/cancelled", "params": {"requestId": 1}}
        await writing.send(SessionMessage(repair_message(cancelled)))
        ends.say(NAMELESS, {"method": "notifications/message"})
        assert (await reading.__anext__()).message.method == "notifications/message"


async def test_the_end_of_a_connection_is_heard_while_an_answer_waits_for_its_call():
    ends = Ends()
    async with repair_streams(ends.open(), SessionMessage) as (reading, writing), asyncio.timeout(30):
        await ask(writing, 1)
        ends.say(NAMELESS)
        await ends.sending.aclose()
        with pytest.raises(StopAsyncIteration):
            await reading.__anext__()
