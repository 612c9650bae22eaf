"""The engine's end of JSON lines over a pair of streams: commands and queries come in, replies and events go out.

Lines from the client: `{"id":n,"submit":{…}}`, `{"id":n,"query":{…}}`, `{"id":n,"subscribe":{"session":s,"after":n}}`.
Lines to the client: `{"id":n,"reply":{…}}`, `{"id":n,"answer":{…}}`, `{"event":{…}}`, `{"stays":true}`.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, TypeVar

import msgspec

from core.protocol.client import ABSENT, Client, ClientFrame, Subscribe
from core.protocol.commands import AnyCommand, Reject
from core.protocol.queries import AnyQuery, RefusedAnswer
from core.records import RecordDecoder, build_json_decoder
from core.tasks import TaskOwner
from core.text.well_formed import encode_record

LINE_LIMIT: Final = 64 * 1024 * 1024
MAX_UNREAD: Final = 16 * 1024 * 1024  # bytes that may be buffered for a client
STALL_LIMIT: Final = 60.0  # seconds in which a client must read something
TASKS_LIMIT: Final = 1.0

T = TypeVar("T")
_lines = build_json_decoder(ClientFrame)
_commands = build_json_decoder(AnyCommand)
_queries = build_json_decoder(AnyQuery)
_subscriptions = build_json_decoder(Subscribe)


class LineServer:
    """Serves one client at the end of a stream.

    One task pumps the events of a session; it waits while the client does not read. `is_patient` False: a client that
    reads nothing for `STALL_LIMIT` is dropped.
    """

    def __init__(self, client: Client, writer: asyncio.StreamWriter, *, is_patient: bool = True) -> None:
        self._engine = client
        self._writer = writer
        self._is_patient = is_patient
        self._tasks = TaskOwner()

    async def listen(self, reader: asyncio.StreamReader) -> None:
        """Answer lines until the client is gone."""
        while True:
            try:
                line = await reader.readuntil(b"\n")
            except asyncio.IncompleteReadError:
                return
            except asyncio.LimitOverrunError as problem:
                await _skip_line(reader, problem.consumed)
                self._send({"id": 0, "reply": Reject(code="line_too_long", message="a line was longer than 64 MB.")})
                continue
            await self._handle_line(line)
            if self._writer.transport.is_closing():
                return

    async def _handle_line(self, line: bytes) -> None:
        """Answer commands one by one in their order; queries and subscriptions run concurrently."""
        if (frame := self._decode(_lines, line, 0, "line_invalid", "a line of this protocol")) is None:
            return
        number = frame.id
        if frame.submit != ABSENT:
            if (command := self._decode(_commands, frame.submit, number, "command_invalid", "a command")) is not None:
                self._send({"id": number, "reply": await self._engine.submit(command)})
        elif frame.query != ABSENT:
            if (query := self._decode(_queries, frame.query, number, "query_invalid", "a question")) is not None:
                self._start_task(self._query(number, query))
        elif frame.subscribe != ABSENT:
            raw, label = frame.subscribe, "a subscription"
            if (subscription := self._decode(_subscriptions, raw, number, "command_invalid", label)) is not None:
                self._start_task(self._pump(number, subscription))

    def _decode(
        self, decoder: RecordDecoder[T], raw: bytes | msgspec.Raw, number: int, code: str, label: str
    ) -> T | None:
        """Decode what a client sent. Returns None after answering that it is not a valid `label`."""
        try:
            return decoder.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as problem:
            verb, refuse = ("answer", RefusedAnswer) if code == "query_invalid" else ("reply", Reject)
            self._send({"id": number, verb: refuse(code=code, message=f"not {label}: {problem}")})
            return None

    async def _query(self, number: int, query: AnyQuery) -> None:
        self._send({"id": number, "answer": await self._engine.query(query)})

    async def _pump(self, number: int, subscription: Subscribe) -> None:
        try:
            async for envelope in self._engine.events(
                subscription.session, after=subscription.after, brief=subscription.brief
            ):
                self._send({"id": number, "event": envelope})
                await self._drain()
        except Exception as problem:  # reported to the client, which can subscribe again
            self._send({"id": number, "reply": Reject(code="subscription_ended", message=str(problem))})
            return
        self._send({"id": number, "end": True})

    async def _drain(self) -> None:
        if self._is_patient or not self._writer.transport.get_write_buffer_size():
            await self._writer.drain()
            return
        try:
            async with asyncio.timeout(STALL_LIMIT):
                await self._writer.drain()
        except TimeoutError:
            self._writer.transport.abort()

    def _send(self, line: dict[str, Any]) -> None:
        transport = self._writer.transport
        if transport.is_closing():
            return
        if not self._is_patient and transport.get_write_buffer_size() > MAX_UNREAD:
            transport.abort()
            return
        self._writer.write(encode_record(line) + b"\n")

    def _start_task(self, work: Any) -> None:
        self._tasks.start(work, name="answers").add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and isinstance(task.exception(), ConnectionError):
            self._writer.transport.abort()

    def send_stays(self) -> None:
        """Announce to the client, as the last line, that the engine continues without it."""
        self._send({"stays": True})

    async def close(self) -> None:
        """Give the last events a moment to leave, and close the connection."""
        await self._tasks.cancel(limit=TASKS_LIMIT)
        if not self._writer.transport.is_closing():
            self._writer.close()


async def _skip_line(reader: asyncio.StreamReader, byte_count: int) -> None:
    while True:
        await reader.readexactly(byte_count)
        try:
            await reader.readuntil(b"\n")
        except asyncio.LimitOverrunError as problem:
            byte_count = problem.consumed
        else:
            return
