"""The two streams of a connection as the SDK gets them: what comes from a server is mended on its way.

They know which calls wait for an answer. One that names no call of ours may be for a notification, which some servers
answer, or for the call that waits: where there is only one and nothing else comes for it, that one ends with it. So
nobody waits for an answer that has come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from math import inf
from typing import Any, Final

from msgspec import Struct, field

from core.clock import monotonic
from core.mcp.wire.mended_lists import mend_lists
from core.mcp.wire.mended_messages import build_error, read_refused

LISTENING: Final = "subscriptions/listen"  # a request that lasts as long as the connection
CANCELLED: Final = "notifications/cancelled"
NAMELESS_SECONDS: Final = 10.0  # that a call still waits for its answer when one came that names no call


@asynccontextmanager
async def mend_streams(
    streams: AbstractAsyncContextManager[tuple[Any, Any]], wrap: Callable[[Any], Any]
) -> AsyncIterator[tuple[Any, Any]]:
    """Return the streams, with what comes from a server as the protocol wants it. `wrap` makes an item of the streams
    of a message."""
    async with streams as (reading, writing):
        calls = _OpenCalls()
        yield _MendedReading(reading, calls, wrap), _NotedWriting(writing, calls)


class _OpenCalls(Struct, eq=False):
    """Our requests: the numbers of all that were `sent`, and of those that wait for an answer. `nameless`: an answer
    that names none of them, for the one that waits, and when that is to have it."""

    sent: set[str] = field(default_factory=set)
    waiting: dict[str, int | str] = field(default_factory=dict)
    nameless: tuple[Any, float] | None = None

    def note_sent(self, message: Any) -> None:
        method, number = getattr(message, "method", ""), getattr(message, "id", None)
        if method == CANCELLED:
            self._end_waiting((message.params or {}).get("requestId"))
        elif method and number is not None:
            self.sent.add(str(number))
            self.waiting |= {str(number): number} if method != LISTENING else {}

    def note_answer(self, message: Any) -> bool:
        """Note an answer. False: it names no request of ours, and whose it is turns out later."""
        if hasattr(message, "method"):
            return True
        if str(message.id) in self.sent:
            self._end_waiting(message.id)
            return True
        if len(self.waiting) == 1 and self.nameless is None:
            (owner,) = self.waiting.values()
            problem = f"it is for the call {message.id}, which was never made"
            ending = build_error(owner, problem) if message.id is not None else message.model_copy(update={"id": owner})
            self.nameless = ending, monotonic() + NAMELESS_SECONDS
        return False

    def _end_waiting(self, number: object) -> None:
        self.waiting.pop(str(number), None)
        if self.nameless is not None and str(self.nameless[0].id) == str(number):
            self.nameless = None

    def compute_patience(self) -> float:
        """Return the seconds that the answer which names no call still waits for another one."""
        return inf if self.nameless is None else max(self.nameless[1] - monotonic(), 0.0)

    def take_nameless(self) -> Any:
        """Return that answer as the one of the call that waits, or None."""
        ending = self.nameless[0] if self.nameless is not None else None
        if ending is not None:
            self._end_waiting(ending.id)
        return ending


class _Wrapped:
    """A stream of the SDK, with what of it is otherwise here."""

    def __init__(self, stream: Any, calls: _OpenCalls) -> None:
        self._stream, self._calls = stream, calls

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aenter__(self) -> Any:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *problem: Any) -> Any:
        return await self._stream.__aexit__(*problem)


class _NotedWriting(_Wrapped):
    async def send(self, item: Any) -> None:
        self._calls.note_sent(item.message)
        await self._stream.send(item)


class _MendedReading(_Wrapped):
    def __init__(self, stream: Any, calls: _OpenCalls, wrap: Callable[[Any], Any]) -> None:
        super().__init__(stream, calls)
        self._wrap = wrap
        self._mended = deque[Any]()

    def __aiter__(self) -> _MendedReading:
        return self

    async def __anext__(self) -> Any:
        import anyio

        while True:
            if not self._mended:
                with anyio.move_on_after(self._calls.compute_patience()) as patience:
                    item = await self._stream.__anext__()
                    self._mended.extend(map(self._wrap, read_refused(item)) if isinstance(item, Exception) else (item,))
                if patience.cancelled_caught and (ending := self._calls.take_nameless()) is not None:
                    return self._wrap(ending)
            while self._mended:
                item = self._mended.popleft()
                if self._calls.note_answer(item.message):
                    return _mend(item)


def _mend(item: Any) -> Any:
    result = getattr(item.message, "result", None)
    if isinstance(result, dict):
        mend_lists(result)
    return item
