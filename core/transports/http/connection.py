"""One connection as uvicorn keeps it, with an end for clients that do not speak and for those that do not read.

uvicorn waits for ever for the headers of a request, and for a reader to take what was written for it.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_LIMIT: Final = 15.0  # seconds until a connection has said what it wants
READER_LIMIT: Final = 30.0  # seconds in which a reader that lags has to take so much:
LEAST_READ: Final = 32 * 1024  # bytes
MAX_HEADERS: Final = 32 * 1024  # bytes


class GuardedProtocol(H11Protocol):
    """A connection with limits. Who is dropped can come back: events are read again from the log."""

    header_limit = HEADER_LIMIT
    reader_limit = READER_LIMIT
    _waiting: asyncio.TimerHandle | None = None
    _stuck: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Wait for the first request, but not for long."""
        super().connection_made(transport)
        self._waiting = self.loop.call_later(self.header_limit, self._drop)

    def handle_events(self) -> None:
        """Read on. Once the headers of a request are whole its route has the time, else the client has."""
        before = _get_cycle(self)
        super().handle_events()
        if _get_cycle(self) is not before or self.transport.is_closing() or self.transport.get_protocol() is not self:
            self._stop_waiting()
        elif self._waiting is None and (before is None or before.response_complete):
            self._waiting = self.loop.call_later(self.header_limit, self._drop)

    def pause_writing(self) -> None:
        """The reader lags: what was written for it waits here."""
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        """The reader has caught up."""
        super().resume_writing()
        self._stop_stuck()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the clocks of a connection that is gone."""
        self._stop_waiting()
        self._stop_stuck()
        super().connection_lost(exc)

    def _watch_reader(self) -> None:
        self._stop_stuck()
        buffer_size = self.transport.get_write_buffer_size()
        self._stuck = self.loop.call_later(self.reader_limit, self._check_reader, buffer_size)

    def _check_reader(self, before: int) -> None:
        """Drop a reader that took too little meanwhile."""
        if before - self.transport.get_write_buffer_size() < LEAST_READ:
            self.transport.abort()
        else:
            self._watch_reader()

    def _drop(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _stop_stuck(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None


def _get_cycle(connection: H11Protocol) -> Any:
    """Return the request at work or the last one, None before the first, whatever uvicorn declares."""
    return connection.cycle
