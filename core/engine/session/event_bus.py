"""Publish a session's events: every client gets every durable event in order and without gaps.

Only live deltas may be merged or dropped. The queue of a client that does not keep up is emptied: durable events are
then read back from the log, and `stream.lagged` says once how many lossy ones it missed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from core.clock import now_ms
from core.protocol.events import DocumentDelta, Envelope, LossyEvent, StreamLagged, ToolOutput

MAX_QUEUED: Final = 2_000
READ_BATCH: Final = 512
MAX_MERGED: Final = 64 * 1024


class _LiveText(Struct, eq=False):
    """Deltas of one document, or output of one call, that wait together; joined only when the client takes them."""

    first: Envelope
    key: tuple[type, str]
    texts: list[str]
    length: int

    def to_envelope(self) -> Envelope:
        if len(self.texts) == 1:
            return self.first
        return replace(self.first, event=replace(self.first.event, text="".join(self.texts)))


class Subscription(Struct, eq=False):
    """One client's view of one session: first the events in the log behind `seen`, the last durable seq that it was
    given (`brief`: not all of them), then live ones."""

    bus: EventBus
    seen: int
    brief: bool = False
    _queue: deque[Envelope | _LiveText] = field(default_factory=deque)
    _is_behind: bool = True
    _is_closed: bool = False
    _dropped: int = 0
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    def offer(self, envelope: Envelope) -> None:
        """Queue a live event. Never blocks."""
        self._wake.set()
        event = envelope.event
        if self._is_behind:
            self._dropped += isinstance(event, LossyEvent)
            return
        item: Envelope | _LiveText = envelope
        if isinstance(event, DocumentDelta | ToolOutput):
            key = (type(event), event.id if isinstance(event, DocumentDelta) else event.call)
            if self._merge(key, event.text):
                return
            item = _LiveText(envelope, key, [event.text], len(event.text))
        self._queue.append(item)
        if len(self._queue) > MAX_QUEUED:
            self._dropped += sum(
                isinstance(entry, _LiveText) or isinstance(entry.event, LossyEvent) for entry in self._queue
            )
            self._queue.clear()
            self._is_behind = True

    def _merge(self, key: tuple[type, str], text: str) -> bool:
        """Add a text to those of its kind at the end of the queue. False: there are none, or they are long already."""
        for waiting in reversed(self._queue):
            if not isinstance(waiting, _LiveText):
                return False
            if waiting.key == key:
                if waiting.length > MAX_MERGED:
                    return False
                waiting.texts.append(text)
                waiting.length += len(text)
                return True
        return False

    def close(self) -> None:
        """End the iteration after what is queued now."""
        self._is_closed = True
        self._wake.set()

    async def iter_envelopes(self) -> AsyncGenerator[Envelope]:
        """Yield durable events after the one the subscription began with, then live ones, until the bus is closed."""
        self.bus.subscriptions[self] = None
        try:
            while True:
                if self._is_behind:
                    for envelope in self._read_back():
                        yield envelope
                elif self._queue:
                    item = self._queue.popleft()
                    if isinstance(item, _LiveText):
                        yield item.to_envelope()
                    else:
                        self.seen = item.seq
                        yield item
                elif self._is_closed:
                    return
                else:
                    self._wake.clear()
                    await self._wake.wait()
        finally:
            self.bus.subscriptions.pop(self, None)

    def _read_back(self) -> list[Envelope]:
        """Return the next durable events from the log; having caught up, the subscription is live from here on."""
        envelopes = self.bus.read_back(self.seen, READ_BATCH, self.brief)
        if envelopes:
            self.seen = envelopes[-1].seq
            return envelopes
        self._is_behind = False
        if not self._dropped:
            return []
        event = StreamLagged(dropped=self._dropped)
        self._dropped = 0
        return [Envelope(seq=self.seen, session=self.bus.session, at=now_ms(), event=event)]


class EventBus(Struct, eq=False):
    """The subscribers of one session. `read_back(after, limit, brief)` returns durable events from the log."""

    session: str
    read_back: Callable[[int, int, bool], list[Envelope]]
    subscriptions: dict[Subscription, None] = field(default_factory=dict)

    def publish(self, envelope: Envelope) -> None:
        """Offer an event to every subscriber. A durable one must be in the log already."""
        for subscription in self.subscriptions:
            subscription.offer(envelope)

    def close(self) -> None:
        """End every subscription once it has given what it holds."""
        for subscription in self.subscriptions:
            subscription.close()
        self.subscriptions.clear()
