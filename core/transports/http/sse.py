"""Server-sent events: their frames, the comments that keep a quiet stream open, and how many streams there may be.

A reader that lags is not buffered for: the connection waits with what it has (`connection`), the engine's queue is
bounded, and what was missed is read from the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from typing import Final

from litestar.response import Stream

from core.errors import AgentTuiError
from core.transports.http.access import HttpRefused

PING_SECONDS: Final = 15.0
MAX_STREAMS: Final = 500
RETRY_MS: Final = 2_000
DONE: Final = b"data: [DONE]\n\n"
_PING: Final = b": ping\n\n"
EVENT_STREAM: Final = "text/event-stream"
_HEADERS: Final = {"Content-Type": EVENT_STREAM, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def encode_event(name: str, data: bytes, *, seq: int | None = None) -> bytes:
    """Return one event; `data` is JSON, which has no line ends. `seq`: the place to come back to, None = none."""
    place = b"" if seq is None else b"id: %d\n" % seq
    return b"%sevent: %s\ndata: %s\n\n" % (place, name.encode(), data)


class StreamCounter:
    """Counts the streams of a server."""

    def __init__(self, most: int = MAX_STREAMS) -> None:
        self.count = 0
        self._most = most

    def build_stream(self, pieces: AsyncGenerator[bytes], headers: dict[str, str] | None = None) -> Stream:
        """Return the answer that sends events as they come. Raises `HttpRefused` when there are too many."""
        if self.count >= self._most:
            raise HttpRefused(503, "streams_full", f"{self._most} streams are open.", retry_after=2)
        return Stream(self._count(pieces), media_type=EVENT_STREAM, headers={**_HEADERS, **(headers or {})})

    async def _count(self, pieces: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
        self.count += 1
        try:
            yield b"retry: %d\n\n" % RETRY_MS
            async for piece in add_pings(pieces):
                yield piece
        finally:
            self.count -= 1


async def add_pings(pieces: AsyncGenerator[bytes], seconds: float = PING_SECONDS) -> AsyncGenerator[bytes]:
    """Yield what comes, and a comment whenever nothing came for so long."""
    waiting: asyncio.Future[bytes] | None = None
    try:
        while True:
            waiting = waiting or asyncio.ensure_future(_take(pieces))
            done, _ = await asyncio.wait({waiting}, timeout=seconds)
            if not done:
                yield _PING
                continue
            found, waiting = waiting.result(), None
            if not found:
                return
            yield found
    finally:
        if waiting is not None:
            waiting.cancel()
            with suppress(asyncio.CancelledError, AgentTuiError):
                await waiting
        await pieces.aclose()


async def _take(pieces: AsyncIterator[bytes]) -> bytes:
    """Return the next piece, b"" = there is none."""
    return await anext(pieces, b"")
