"""Server-sent events: their frames, pings that keep a quiet stream open, and the limit of streams.

The server does not buffer for a lagging reader: the engine's queue is bounded, and missed events are read from the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from typing import Annotated, Any, Final

from anyio import CancelScope
from litestar.params import HeaderParameter, QueryParameter
from litestar.response import Stream
from litestar.response.base import ASGIResponse
from litestar.response.streaming import ASGIStreamingResponse

from core.errors import AgentTuiError, CommandRejected
from core.transports.http.access import HttpRefused

PING_SECONDS: Final = 15.0
MAX_STREAMS: Final = 500
RETRY_MS: Final = 2_000
DONE: Final = b"data: [DONE]\n\n"
_PING: Final = b": ping\n\n"
EVENT_STREAM: Final = "text/event-stream"
_HEADERS: Final = {"Content-Type": EVENT_STREAM, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
EventId = Annotated[int | None, QueryParameter(ge=0, description="The `id:` of the last event that was received.")]
LastEvent = Annotated[str | None, HeaderParameter(name="Last-Event-ID", description="As `after`, by a browser.")]


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


class EventStream(Stream):
    """A response that sends events as they come. litestar leaves the generator of a disconnected reader to the garbage
    collector; this class closes it."""

    def to_asgi_response(self, app: Any, request: Any, **kwargs: Any) -> ASGIResponse:
        """Build the ASGI response."""
        names = ("cookies", "encoded_headers")
        iterator: Any = self.iterator
        return _ClosingResponse(
            iterator=iterator,
            headers={**(kwargs.get("headers") or {}), **self.headers},
            media_type=EVENT_STREAM,
            status_code=200,
            **{name: kwargs[name] for name in names if kwargs.get(name) is not None},
        )


class _ClosingResponse(ASGIStreamingResponse):
    async def send_body(self, send: Any, receive: Any) -> None:
        try:
            await super().send_body(send, receive)
        finally:
            with CancelScope(shield=True):
                await self.iterator.aclose()  # type: ignore[union-attr]


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
        return EventStream(self._count(pieces), headers={**_HEADERS, **(headers or {})})

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
