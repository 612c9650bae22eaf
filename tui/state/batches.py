"""Batched display of folded events, so that neither a burst of events nor a slow screen delays keys.

Changes are displayed at once after a rest, else no more often than every `max(FLUSH_INTERVAL, 3 x the cost of the last
batch)`. While the user types, less often and in the pause after a key: keys of a typing hand are at least 60 ms apart.
The end of a document or a turn waits for that cost only.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from core.protocol.events import AnyEvent, DocumentFinished, TurnFinished
from tui.state.transcript import Topic, Topics

FLUSH_INTERVAL: Final = 0.06  # seconds between two checks for new events
TYPING_INTERVAL: Final = 0.25  # the same while the user types: keys must not wait for drawing
TYPING_DURATION: Final = 0.4  # seconds after a key
ECHO_DURATION: Final = 0.012  # seconds after a key in which its letter is drawn
FLUSH_COST_FACTOR: Final = 3
ENDS: Final = (DocumentFinished, TurnFinished)  # no more events follow that could join the batch


class EventBatches:
    """Calls `show` with the topics that have changed since the last time. `timer`: of the next batch, if one is due."""

    def __init__(self, show: Callable[[frozenset[Topic]], None]) -> None:
        self.timer: asyncio.TimerHandle | None = None
        self.flushed_at = self.typed_at = float("-inf")
        self.cost = 0.0  # seconds that the last batch took
        self._show = show
        self._topics: set[Topic] = set()

    def add(self, topics: Topics, event: AnyEvent | None = None) -> None:
        """Show these topics soon, because of an event."""
        self._topics |= topics
        self._schedule(is_end=isinstance(event, ENDS))

    def note_typing(self) -> None:
        """Show changes less often for a moment, as the user types; if it is time, in the pause after this key."""
        now = time.monotonic()
        was_typing = now - self.typed_at < TYPING_DURATION
        self.typed_at = now
        if self.timer is None:
            return
        elapsed = now - self.flushed_at
        if max(TYPING_INTERVAL / 2, FLUSH_COST_FACTOR * self.cost) <= elapsed <= 2 * TYPING_INTERVAL:
            self._restart(ECHO_DURATION)
        elif not was_typing:
            self._restart(self.measure_wait(now))

    def note_sent(self) -> None:
        """Display changes as they come: the user has submitted something and waits for the answer."""
        self.typed_at = float("-inf")
        if self.timer is not None:
            self._schedule()

    def cancel(self) -> None:
        """Display nothing more until something is added."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def measure_wait(self, now: float, *, is_end: bool = False) -> float:
        """Return the seconds from `now` until the next batch."""
        is_typing = now - self.typed_at < TYPING_DURATION
        interval = TYPING_INTERVAL if is_typing else 0.0 if is_end else FLUSH_INTERVAL
        return max(self.flushed_at + max(interval, FLUSH_COST_FACTOR * self.cost) - now, 0.0)

    def _schedule(self, *, is_end: bool = False) -> None:
        wait = self.measure_wait(time.monotonic(), is_end=is_end)
        if self.timer is None or asyncio.get_running_loop().time() + wait < self.timer.when():
            self._restart(wait)

    def _restart(self, wait: float) -> None:
        self.cancel()
        self.timer = asyncio.get_running_loop().call_later(wait, self._flush)

    def flush(self) -> None:
        """Display all changes of the batch at once."""
        if self.timer is not None:
            self.cancel()
            self._flush()

    def _flush(self) -> None:
        self.timer = None
        topics, self._topics = frozenset(self._topics), set()
        start = time.monotonic()
        self._show(topics)
        asyncio.get_running_loop().call_soon(self._measure, start)

    def _measure(self, start: float) -> None:
        self.flushed_at = time.monotonic()
        self.cost = self.flushed_at - start
