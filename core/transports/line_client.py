"""The client's end of JSON lines over a pair of streams.

It runs in the process of the screen, so it imports next to nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final

import msgspec

from core.protocol.client import ABSENT, EngineFrame, EngineGone
from core.protocol.commands import AnyCommand, Reject, Reply
from core.protocol.events import Envelope
from core.protocol.queries import AnyAnswer, AnyQuery
from core.records import build_json_decoder
from core.tasks import TaskOwner
from core.text.well_formed import encode_record

LINE_LIMIT: Final = 64 * 1024 * 1024
MAX_ERROR_LINES: Final = 50
ERROR_LINES_WAIT: Final = 1.0  # seconds to collect the last errors of the other end

_lines = build_json_decoder(EngineFrame)


class _Decoders:
    """Decoders of replies, answers and events. They are built with the first line, since that takes a moment."""

    def __init__(self) -> None:
        self.reply = build_json_decoder(Reply)
        self.answer = build_json_decoder(AnyAnswer)
        self.event = build_json_decoder(Envelope)


class LineClient:
    """A `Client` at the end of two streams. `stays`: the engine announced that it continues without this client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._decoders: _Decoders | None = None
        self._number = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._streams: dict[int, asyncio.Queue[Envelope | Reject | None]] = {}
        self._error_lines: deque[str] = deque(maxlen=MAX_ERROR_LINES)
        self.is_gone = self.stays = False
        self._tasks = TaskOwner()
        self._reading = self._tasks.start(self._read_lines(), name="engine lines")

    async def submit(self, command: AnyCommand) -> Reply:
        reply: Reply = await self._request("submit", command)
        return reply

    async def query(self, query: AnyQuery) -> AnyAnswer:
        answer: AnyAnswer = await self._request("query", query)
        return answer

    async def events(self, session: str, *, after: int = 0, brief: bool = False) -> AsyncIterator[Envelope]:
        """Yield events until the session is closed. Raises `EngineGone` once the engine is gone."""
        number = self._next_number()
        queue = self._streams[number] = asyncio.Queue()
        try:
            await self._send({"id": number, "subscribe": {"session": session, "after": after, "brief": brief}})
            while True:
                item = await queue.get()
                if isinstance(item, Reject):
                    raise self._build_gone_error(item.message)
                if item is None:
                    if self.is_gone:
                        raise self._build_gone_error()
                    return
                yield item
        finally:
            self._streams.pop(number, None)

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    async def _request(self, verb: str, record: AnyCommand | AnyQuery) -> Any:
        number = self._next_number()
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            await self._send({"id": number, verb: record})
            return await future
        finally:
            self._waiting.pop(number, None)

    async def _send(self, line: dict[str, Any]) -> None:
        if not self.is_gone and not self._writer.is_closing():
            self._writer.write(encode_record(line) + b"\n")
            with suppress(ConnectionError):
                await self._writer.drain()
                return
        await asyncio.wait({self._reading}, timeout=ERROR_LINES_WAIT)  # its last errors may still arrive
        raise self._build_gone_error()

    def _build_gone_error(self, reason: str = "") -> EngineGone:
        error_text = "\n".join(self._error_lines)
        return EngineGone("\n".join(filter(None, (reason, error_text))))

    async def _read_lines(self) -> None:
        try:
            while line := await self._reader.readline():
                self._handle_line(line)
        except (ValueError, msgspec.DecodeError) as problem:
            self._error_lines.append(f"the engine sent an invalid line: {problem}")
            self._on_protocol_error()
        except OSError as problem:
            self._error_lines.append(f"the connection to the engine failed: {problem}")
        finally:
            await self._collect_error_lines()
            self._release_waiters()

    def _on_protocol_error(self) -> None:
        """End the connection to a peer that does not speak this protocol."""
        self._writer.transport.abort()

    async def _collect_error_lines(self) -> None:
        """Wait a moment for the error output of an engine that is gone."""

    def _handle_line(self, line: bytes) -> None:
        frame = _lines.decode(line)
        self.stays = self.stays or frame.stays
        decoders = self._decoders = self._decoders or _Decoders()
        stream = self._streams.get(frame.id)
        if frame.event != ABSENT:
            if stream is not None:
                stream.put_nowait(decoders.event.decode(frame.event))
        elif frame.reply != ABSENT:
            reply = decoders.reply.decode(frame.reply)
            if stream is not None and isinstance(reply, Reject):
                stream.put_nowait(reply)
            self._set_result(frame.id, reply)
        elif frame.answer != ABSENT:
            self._set_result(frame.id, decoders.answer.decode(frame.answer))
        elif frame.end and stream is not None:
            stream.put_nowait(None)

    def _set_result(self, number: int, result: object) -> None:
        future = self._waiting.get(number)
        if future is not None and not future.done():
            future.set_result(result)

    def _release_waiters(self) -> None:
        self.is_gone = True
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(self._build_gone_error())
        for queue in self._streams.values():
            queue.put_nowait(None)

    async def close(self) -> None:
        """End the connection. Safe to call twice."""
        if not self._writer.is_closing():
            self._writer.close()
        await asyncio.wait({self._reading}, timeout=ERROR_LINES_WAIT)
        await self._tasks.cancel()
        self.is_gone = True
