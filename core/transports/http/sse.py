"""Server-sent events: their frames, pings that keep a quiet stream open, and the limit of streams.

The server does not buffer for a lagging reader: the engine's queue is bounded, and missed events are read from the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import suppress
from typing import Annotated, Final

from anyio import CancelScope
from msgspec import Meta
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from core.errors import AgentTuiError, CommandRejected
from core.transports.http.access import HttpRefused

PING_SECONDS: Final = 15.0
MAX_STREAMS: Final = 500
RETRY_MS: Final = 2_000
DONE: Final = b"data: [DONE]\n\n"
_PING: Final = b": ping\n\n"
EVENT_STREAM: Final = "text/event-stream"
_HEADERS: Final = {"Content-Type": EVENT_STREAM, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
EventId = Annotated[
    Annotated[int, Meta(ge=0)] | None, Meta(description="The `id:` of the last event that was received.")
]
LastEvent = Annotated[str | None, Meta(description="As `after`, by a browser.")]


def parse_position(after: int | None, last_event_id: str | None) -> int:
    """Return the sequence number after which a client continues. Raises `CommandRejected`."""
    if after is not None:
        return after
    if last_event_id and not (last_event_id.isascii() and last_event_id.isdecimal() and len(last_event_id) < 16):
        raise CommandRejected("Last-Event-ID is not the id of an event.", code="request_invalid")
    return int(last_event_id or 0)


def encode_event(name: str, data: bytes, *, seq: int | None = None) -> bytes:
    """Encode one event. `data`: JSON, which has no newlines. `seq`: the position to continue from, None = none."""
    id_line = b"" if seq is None else b"id: %d\n" % seq
    return b"%sevent: %s\ndata: %s\n\n" % (id_line, name.encode(), data)


class EventStream(StreamingResponse):
    """A response that sends events as they come. starlette leaves the generator of a disconnected reader to the garbage
    collector; this class closes it."""

    def __init__(self, pieces: AsyncGenerator[bytes], headers: Mapping[str, str]) -> None:
        super().__init__(pieces, headers=headers)
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            with CancelScope(shield=True):
                await self._pieces.aclose()


Events = Annotated[EventStream, EVENT_STREAM]  # the answer of a route that only streams


class StreamCounter:
    """Counts the open streams of a server."""

    def __init__(self, limit: int = MAX_STREAMS) -> None:
        self.count = 0
        self._most = limit
        self._empty = asyncio.Event()

    def build_stream(self, pieces: AsyncGenerator[bytes], headers: dict[str, str] | None = None) -> EventStream:
        """Build the response for a stream. Raises `HttpRefused` when there are too many."""
        if self.count >= self._most:
            raise HttpRefused(503, "streams_full", f"{self._most} streams are open.", retry_after=2)
        return EventStream(self._count(pieces), {**_HEADERS, **(headers or {})})

    async def wait_empty(self) -> None:
        """Wait until the last open stream ends."""
        await self._empty.wait()

    async def _count(self, pieces: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
        self.count += 1
        self._empty.clear()
        try:
            yield b"retry: %d\n\n" % RETRY_MS
            async for piece in add_pings(pieces):
                yield piece
        finally:
            self.count -= 1
            if not self.count:
                self._empty.set()


async def add_pings(pieces: AsyncGenerator[bytes], seconds: float = PING_SECONDS) -> AsyncGenerator[bytes]:
    """Yield the pieces, and a ping after every `seconds` without one."""
    waiting: asyncio.Future[bytes] | None = None
    try:
        while True:
            waiting = waiting or asyncio.ensure_future(_take(pieces))
            finished_futures, _ = await asyncio.wait({waiting}, timeout=seconds)
            if not finished_futures:
                yield _PING
                continue
            piece, waiting = waiting.result(), None
            if not piece:
                return
            yield piece
    finally:
        if waiting is not None:
            waiting.cancel()
            with suppress(asyncio.CancelledError, AgentTuiError):
                await waiting
        await pieces.aclose()


async def _take(pieces: AsyncIterator[bytes]) -> bytes:
    """Return the next piece, b"" at the end."""
    return await anext(pieces, b"")
