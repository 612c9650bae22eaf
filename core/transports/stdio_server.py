"""Serve an engine as a child process: JSON lines, commands and queries on standard input, replies and events on
standard output. The end of standard input means that the client is gone: what runs is interrupted, the
sessions are closed.

Lines from the client: `{"id":n,"submit":{…}}`, `{"id":n,"query":{…}}`, `{"id":n,"subscribe":{"session":s,"after":n}}`.
Lines to the client: `{"id":n,"reply":{…}}`, `{"id":n,"answer":{…}}`, `{"event":{…}}`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import Any, Final, TypeVar

import msgspec

from core.cli.arguments import EngineArguments
from core.engine import Engine
from core.engine.models import ModelAccess
from core.exits import ExitCode
from core.protocol.commands import AnyCommand, Reject
from core.protocol.frames import ABSENT, ClientFrame, Subscribe
from core.protocol.queries import AnyQuery, RefusedAnswer
from core.records import build_json_decoder
from core.tasks import TaskOwner
from core.text.well_formed import encode_record

LINE_LIMIT: Final = 64 * 1024 * 1024
CLOSE_LIMIT: Final = 12.0
TASKS_LIMIT: Final = 1.0
_DIE_WITH_PARENT: Final = 1  # PR_SET_PDEATHSIG

T = TypeVar("T")
_lines = build_json_decoder(ClientFrame)
_commands = build_json_decoder(AnyCommand)
_queries = build_json_decoder(AnyQuery)
_subscriptions = build_json_decoder(Subscribe)


def serve(arguments: EngineArguments, *, models: ModelAccess | None = None) -> int:
    """Run an engine for the client at the other end of standard input and output."""
    _ignore_terminal_signals()
    channel = os.dup(1)
    os.dup2(2, 1)  # whatever a library prints must not end up between the lines
    try:
        asyncio.run(_serve(arguments, channel, models))
    except (BrokenPipeError, ConnectionResetError):
        return ExitCode.DONE
    return ExitCode.DONE


def _ignore_terminal_signals() -> None:
    """Ignore the terminal's signals, which are the client's business; the engine ends when its client does."""
    for name in ("SIGINT", "SIGHUP", "SIGTTOU", "SIGTTIN"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    if sys.platform.startswith("linux"):
        import ctypes

        with contextlib.suppress(OSError, AttributeError):  # its standard input tells, too
            ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGTERM)


async def _serve(arguments: EngineArguments, channel: int, models: ModelAccess | None) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LINE_LIMIT, loop=loop)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.streams.FlowControlMixin(loop), os.fdopen(channel, "wb", buffering=0)
    )
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    engine = Engine(arguments.directory, options=arguments, models=models)
    server = _StdioServer(engine, writer)
    listening = asyncio.create_task(server.listen(reader), name="lines")
    loop.add_signal_handler(signal.SIGTERM, listening.cancel)
    with contextlib.suppress(asyncio.CancelledError, ConnectionError):
        await listening
    await server.close()


class _StdioServer:
    """Serves one client. Events of a session are pumped by one task, which waits while the client does not read."""

    def __init__(self, engine: Engine, writer: asyncio.StreamWriter) -> None:
        self._engine = engine
        self._writer = writer
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
        """Answer commands one by one, in the order in which they came; the rest beside them."""
        if (said := self._decode(_lines, line, 0, "line_invalid", "a line of this protocol")) is None:
            return
        number = said.id
        if said.submit != ABSENT:
            if (command := self._decode(_commands, said.submit, number, "command_invalid", "a command")) is not None:
                self._send({"id": number, "reply": await self._engine.submit(command)})
        elif said.query != ABSENT:
            if (query := self._decode(_queries, said.query, number, "query_invalid", "a question")) is not None:
                self._start_task(self._query(number, query))
        elif said.subscribe != ABSENT:
            raw, what = said.subscribe, "a subscription"
            if (wanted := self._decode(_subscriptions, raw, number, "command_invalid", what)) is not None:
                self._start_task(self._pump(number, wanted))

    def _decode(
        self, decoder: msgspec.json.Decoder[T], raw: bytes | msgspec.Raw, number: int, code: str, what: str
    ) -> T | None:
        """Decode what a client sent; None: it is not `what` it should be, which was answered."""
        try:
            return decoder.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as problem:
            verb, refuse = ("answer", RefusedAnswer) if code == "query_invalid" else ("reply", Reject)
            self._send({"id": number, verb: refuse(code=code, message=f"not {what}: {problem}")})
            return None

    async def _query(self, number: int, query: AnyQuery) -> None:
        self._send({"id": number, "answer": await self._engine.query(query)})

    async def _pump(self, number: int, wanted: Subscribe) -> None:
        try:
            async for envelope in self._engine.events(wanted.session, after=wanted.after, brief=wanted.brief):
                self._send({"id": number, "event": envelope})
                await self._writer.drain()
        except Exception as problem:  # told to the client, who can ask again
            self._send({"id": number, "reply": Reject(code="subscription_ended", message=str(problem))})
            return
        self._send({"id": number, "end": True})

    def _send(self, line: dict[str, Any]) -> None:
        if not self._writer.transport.is_closing():
            self._writer.write(encode_record(line) + b"\n")

    def _start_task(self, work: Any) -> None:
        self._tasks.start(work, name="answers").add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and isinstance(task.exception(), ConnectionError):
            self._writer.transport.abort()

    async def close(self) -> None:
        """Close the sessions, give the last events a moment to leave, and close the connection."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._engine.close(), CLOSE_LIMIT)
        await self._tasks.cancel(limit=TASKS_LIMIT)
        self._writer.transport.abort()


async def _skip_line(reader: asyncio.StreamReader, held: int) -> None:
    while True:
        await reader.readexactly(held)
        try:
            await reader.readuntil(b"\n")
        except asyncio.LimitOverrunError as problem:
            held = problem.consumed
        else:
            return
