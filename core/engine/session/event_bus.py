"""Publish a session's events: every client gets every durable event in order and without gaps.

Only live deltas may be merged or dropped. A client that does not keep up costs a bounded amount of memory: its queue
is emptied, durable events are read back from the log when it asks for them, and it is told once (`stream.lagged`)
how many lossy events it missed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Final

from core.clock import now_ms
from core.protocol.events import DocumentDelta, Envelope, LossyEvent, StreamLagged, ToolOutput

MAX_QUEUED: Final = 2_000
READ_BATCH: Final = 512
MAX_MERGED: Final = 64 * 1024

ReadBack = Callable[[int, int, bool], list[Envelope]]


class _QueuedEvent:
    """One queued envelope; the texts of merged deltas are joined only when the client takes it."""

    __slots__ = ("envelope", "key", "length", "texts")

    def __init__(self, envelope: Envelope) -> None:
        self.envelope = envelope
        self.key = _merge_key(envelope)
        self.texts: list[str] = []
        self.length = 0
        self.add(envelope)

    def add(self, envelope: Envelope) -> None:
        event = envelope.event
        if isinstance(event, DocumentDelta | ToolOutput):
            self.texts.append(event.text)
            self.length += len(event.text)

    def to_envelope(self) -> Envelope:
        old = self.envelope
        if len(self.texts) < 2:
            return old
        text = "".join(self.texts)
        event = old.event
        merged = (
            DocumentDelta(id=event.id, text=text)
            if isinstance(event, DocumentDelta)
            else ToolOutput(call=self.key[1], text=text)
        )
        return Envelope(seq=old.seq, session=old.session, at=old.at, event=merged, turn=old.turn)


def _merge_key(envelope: Envelope) -> tuple[str, str]:
    match envelope.event:
        case DocumentDelta(id=document):
            return "document", document
        case ToolOutput(call=call):
            return "tool", call
        case _:
            return "", ""


class Subscription:
    """One client's view of one session. `seen`: the last durable seq that it was given."""

    def __init__(self, bus: EventBus, after: int, *, brief: bool = False) -> None:
        self._bus = bus
        self._brief = brief
        self.seen = after
        self._queue: deque[_QueuedEvent] = deque()
        self._behind = True
        self._dropped = 0
        self._wake = asyncio.Event()

    def offer(self, envelope: Envelope) -> None:
        """Queue a live event. Never blocks."""
        self._wake.set()
        lossy = isinstance(envelope.event, LossyEvent)
        if self._behind:
            self._dropped += lossy
            return
        if lossy and self._merge(envelope):
            return
        if len(self._queue) >= MAX_QUEUED:
            self._fall_behind(lossy=lossy)
            return
        self._queue.append(_QueuedEvent(envelope))

    def _merge(self, envelope: Envelope) -> bool:
        """Add a delta to one of the deltas at the end of the queue. False if there is none to add it to."""
        key = _merge_key(envelope)
        for waiting in reversed(self._queue):
            if not waiting.key[0]:
                return False
            if waiting.key == key:
                if waiting.length > MAX_MERGED:
                    return False
                waiting.add(envelope)
                return True
        return False

    def _fall_behind(self, *, lossy: bool) -> None:
        self._dropped += lossy + sum(isinstance(waiting.envelope.event, LossyEvent) for waiting in self._queue)
        self._queue.clear()
        self._behind = True

    def close(self) -> None:
        """End the iteration after what is queued now."""
        self._bus.unsubscribe(self)
        self._wake.set()

    async def iter_envelopes(self) -> AsyncGenerator[Envelope]:
        """Yield durable events after the one the subscription began with, then live ones, until the bus is closed."""
        try:
            while True:
                while self._behind:
                    for envelope in self._read_back():
                        yield envelope
                while self._queue and not self._behind:
                    envelope = self._queue.popleft().to_envelope()
                    if not isinstance(envelope.event, LossyEvent):
                        self.seen = envelope.seq
                    yield envelope
                if self._has_more():
                    continue
                if not self._bus.has_subscription(self):
                    return
                self._wake.clear()
                await self._wake.wait()
        finally:
            self._bus.unsubscribe(self)

    def _has_more(self) -> bool:
        return self._behind or bool(self._queue)

    def _read_back(self) -> list[Envelope]:
        """Return the next durable events from the log; having caught up, the subscription is live from here on."""
        found = self._bus.read_back(self.seen, READ_BATCH, self._brief)
        if found:
            self.seen = found[-1].seq
            return found
        self._behind = False
        if not self._dropped:
            return []
        lagged = StreamLagged(dropped=self._dropped)
        self._dropped = 0
        return [Envelope(seq=self.seen, session=self._bus.session, at=now_ms(), event=lagged)]


class EventBus:
    """The subscribers of one session. `read_back(after, limit, brief)` returns durable events from the log."""

    def __init__(self, session: str, read_back: ReadBack) -> None:
        self.session = session
        self.read_back = read_back
        self._subscriptions: list[Subscription] = []

    def subscribe(self, after: int, *, brief: bool = False) -> Subscription:
        """Subscribe to events behind `after`: first those in the log (`brief`: not all of them), then live ones."""
        subscription = Subscription(self, after, brief=brief)
        self._subscriptions.append(subscription)
        return subscription

    def publish(self, envelope: Envelope) -> None:
        """Offer an event to every subscriber. A durable one must be in the log already."""
        for subscription in self._subscriptions:
            subscription.offer(envelope)

    def has_subscription(self, subscription: Subscription) -> bool:
        return subscription in self._subscriptions

    def unsubscribe(self, subscription: Subscription) -> None:
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)

    def close(self) -> None:
        """End every subscription once it has given what it holds."""
        for subscription in list(self._subscriptions):
            subscription.close()
