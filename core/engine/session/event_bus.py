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

from msgspec import structs

from core.clock import now_ms
from core.protocol.events import DocumentDelta, Envelope, LossyEvent, StreamLagged, ToolOutput

MAX_QUEUED: Final = 2_000
READ_BATCH: Final = 512
MAX_MERGED: Final = 64 * 1024

ReadBack = Callable[[int, int, bool], list[Envelope]]


class _LiveText:
    """Deltas of one document, or output of one call, that wait together; joined only when the client takes them."""

    __slots__ = ("first", "key", "length", "texts")

    def __init__(self, envelope: Envelope, key: tuple[str, str], text: str) -> None:
        self.first = envelope
        self.key = key
        self.texts = [text]
        self.length = len(text)

    def add(self, text: str) -> None:
        self.texts.append(text)
        self.length += len(text)

    def to_envelope(self) -> Envelope:
        if len(self.texts) == 1:
            return self.first
        text, (kind, name) = "".join(self.texts), self.key
        event = DocumentDelta(id=name, text=text) if kind == "document" else ToolOutput(call=name, text=text)
        return structs.replace(self.first, event=event)


def _is_lossy(item: Envelope | _LiveText) -> bool:
    return isinstance(item, _LiveText) or isinstance(item.event, LossyEvent)


class Subscription:
    """One client's view of one session. `seen`: the last durable seq that it was given."""

    def __init__(self, bus: EventBus, after: int, *, brief: bool = False) -> None:
        self._bus = bus
        self._brief = brief
        self.seen = after
        self._queue: deque[Envelope | _LiveText] = deque()
        self._is_behind = True
        self._is_closed = False
        self._dropped = 0
        self._wake = asyncio.Event()

    def offer(self, envelope: Envelope) -> None:
        """Queue a live event. Never blocks."""
        self._wake.set()
        match envelope.event:
            case DocumentDelta(id=document, text=text):
                self._offer_text(envelope, ("document", document), text)
            case ToolOutput(call=call, text=text):
                self._offer_text(envelope, ("tool", call), text)
            case event if self._is_behind:
                self._dropped += isinstance(event, LossyEvent)
            case _:
                self._append(envelope)

    def _offer_text(self, envelope: Envelope, key: tuple[str, str], text: str) -> None:
        """Add a text to those of its kind at the end of the queue, or behind it; what can't be queued is dropped."""
        if self._is_behind:
            self._dropped += 1
            return
        for waiting in reversed(self._queue):
            if not isinstance(waiting, _LiveText):
                break
            if waiting.key == key:
                if waiting.length > MAX_MERGED:
                    break
                waiting.add(text)
                return
        self._append(_LiveText(envelope, key, text))

    def _append(self, item: Envelope | _LiveText) -> None:
        if len(self._queue) < MAX_QUEUED:
            self._queue.append(item)
            return
        self._queue.append(item)
        self._dropped += sum(_is_lossy(each) for each in self._queue)
        self._queue.clear()
        self._is_behind = True

    def close(self) -> None:
        """End the iteration after what is queued now."""
        self._is_closed = True
        self._bus.unsubscribe(self)
        self._wake.set()

    async def iter_envelopes(self) -> AsyncGenerator[Envelope]:
        """Yield durable events after the one the subscription began with, then live ones, until the bus is closed."""
        try:
            while True:
                while self._is_behind:
                    for envelope in self._read_back():
                        yield envelope
                while self._queue and not self._is_behind:
                    item = self._queue.popleft()
                    if isinstance(item, _LiveText):
                        yield item.to_envelope()
                    else:
                        self.seen = item.seq
                        yield item
                if self._has_more():
                    continue
                if self._is_closed:
                    return
                self._wake.clear()
                await self._wake.wait()
        finally:
            self._bus.unsubscribe(self)

    def _has_more(self) -> bool:
        return self._is_behind or bool(self._queue)

    def _read_back(self) -> list[Envelope]:
        """Return the next durable events from the log; having caught up, the subscription is live from here on."""
        found = self._bus.read_back(self.seen, READ_BATCH, self._brief)
        if found:
            self.seen = found[-1].seq
            return found
        self._is_behind = False
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

    def unsubscribe(self, subscription: Subscription) -> None:
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)

    def close(self) -> None:
        """End every subscription once it has given what it holds."""
        for subscription in list(self._subscriptions):
            subscription.close()
