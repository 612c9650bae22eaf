from __future__ import annotations

import asyncio

from core.engine.session.event_bus import MAX_QUEUED, EventBus, Subscription
from core.protocol.events import DocumentDelta, Envelope, Notice, StreamLagged, ToolOutput


class Tape:
    def __init__(self) -> None:
        self.durable: list[Envelope] = []
        self.bus = EventBus("ses_a", lambda after, limit, _: self.durable[after : after + limit])

    def say(self, text: str) -> None:
        event = Notice(level="info", message=text)
        self.durable.append(Envelope(seq=len(self.durable) + 1, session="ses_a", at=0, event=event))
        self.bus.publish(self.durable[-1])

    def delta(self, text: str, document: str = "d") -> None:
        event = DocumentDelta(id=document, text=text)
        self.bus.publish(Envelope(seq=len(self.durable), session="ses_a", at=0, event=event))

    def output(self, text: str) -> None:
        event = ToolOutput(call="c", text=text)
        self.bus.publish(Envelope(seq=len(self.durable), session="ses_a", at=0, event=event))


async def take(stream, count: int) -> list:
    return [await anext(stream) for _ in range(count)]


async def caught_up(tape: Tape, after: int = 0):
    stream = Subscription(tape.bus, after).iter_envelopes()
    tape.say("ready")
    await take(stream, len(tape.durable) - after)
    return stream


async def test_a_subscriber_gets_the_past_and_then_what_happens():
    tape = Tape()
    for text in "abc":
        tape.say(text)
    stream = Subscription(tape.bus, 1).iter_envelopes()
    assert [each.seq for each in await take(stream, 2)] == [2, 3]
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    tape.say("d")
    assert (await waiting).seq == 4


async def test_waiting_deltas_of_one_document_become_one():
    tape = Tape()
    stream = await caught_up(tape)
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    for text in ("a", "b", "c"):
        tape.delta(text)
    tape.delta("x", "other")
    tape.delta("d")
    tape.output("1")
    tape.output("2")
    tape.say("end")
    tape.delta("e")
    found = [(await waiting).event, *(each.event for each in await take(stream, 4))]
    assert found[:2] == [DocumentDelta(id="d", text="abcd"), DocumentDelta(id="other", text="x")]
    assert found[2] == ToolOutput(call="c", text="12")
    assert found[4] == DocumentDelta(id="d", text="e")


async def test_a_slow_subscriber_loses_only_lossy_events_and_is_told_once():
    tape = Tape()
    stream = await caught_up(tape)
    for number in range(MAX_QUEUED):
        tape.say(str(number))
        tape.delta("x")
    tape.say("last")
    found = []
    while not found or not isinstance(found[-1].event, StreamLagged):
        found.append(await anext(stream))
    durable = [each.seq for each in found if isinstance(each.event, Notice)]
    assert durable == list(range(2, len(tape.durable) + 1))
    assert found[-1].event == StreamLagged(dropped=MAX_QUEUED)
    tape.say("live again")
    assert (await anext(stream)).seq == len(tape.durable)


async def test_two_subscribers_see_the_same_order():
    tape = Tape()
    streams = [Subscription(tape.bus, 0).iter_envelopes() for _ in range(2)]
    for number in range(10):
        tape.say(str(number))
    assert await take(streams[0], 10) == await take(streams[1], 10) == tape.durable


async def test_closing_the_bus_ends_the_streams():
    tape = Tape()
    stream = await caught_up(tape)
    tape.say("bye")
    tape.bus.close()
    assert [each.event.message async for each in stream] == ["bye"]
