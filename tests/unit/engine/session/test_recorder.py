from __future__ import annotations

import asyncio

from core.engine.session.recorder import MAX_QUEUED, EventBus, Subscription
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
    assert [envelope.seq for envelope in await take(stream, 2)] == [2, 3]
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
    events = [(await waiting).event, *(envelope.event for envelope in await take(stream, 4))]
    assert events[:2] == [DocumentDelta(id="d", text="abcd"), DocumentDelta(id="other", text="x")]
    assert events[2] == ToolOutput(call="c", text="12")
    assert events[4] == DocumentDelta(id="d", text="e")


async def test_a_slow_subscriber_loses_only_lossy_events_and_is_told_once():
    tape = Tape()
    stream = await caught_up(tape)
    for number in range(MAX_QUEUED):
        tape.say(str(number))
        tape.delta("x")
    tape.say("last")
    envelopes = []
    while not envelopes or not isinstance(envelopes[-1].event, StreamLagged):
        envelopes.append(await anext(stream))
    durable = [envelope.seq for envelope in envelopes if isinstance(envelope.event, Notice)]
    assert durable == list(range(2, len(tape.durable) + 1))
    assert envelopes[-1].event == StreamLagged(dropped=MAX_QUEUED)
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
    assert [envelope.event.message async for envelope in stream] == ["bye"]
