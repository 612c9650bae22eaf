"""The client's end of the stdio transport: starts the engine as a child process and exchanges JSON lines with it.

It runs in the process of the screen, so it imports next to nothing. The engine gets a session of its own, so that no
signal of the terminal reaches it; it ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from core.protocol.client import EngineGone
from core.protocol.commands import AnyCommand, Reject, Reply
from core.protocol.events import Envelope
from core.protocol.frames import ABSENT, EngineFrame
from core.protocol.queries import AnyAnswer, AnyQuery
from core.records import build_json_decoder
from core.tasks import TaskOwner
from core.text.well_formed import encode_record

if TYPE_CHECKING:
    from core.cli.arguments import ScreenArguments

LINE_LIMIT: Final = 64 * 1024 * 1024
MAX_STDERR_LINES: Final = 50
CLOSE_LIMIT: Final = 15.0
_FORWARDED_OPTIONS: Final = ("mode", "model", "max_steps", "max_cost", "max_tokens")

_lines = build_json_decoder(EngineFrame)


class _Decoders:
    """Decoders of replies, answers and events; built with the first line, since that takes a moment."""

    def __init__(self) -> None:
        self.reply = build_json_decoder(Reply)
        self.answer = build_json_decoder(AnyAnswer)
        self.event = build_json_decoder(Envelope)


async def connect(arguments: ScreenArguments) -> StdioClient:
    """Start an engine for `arguments.directory`. Raises `EngineGone` if it can't be started."""
    try:
        process = await asyncio.create_subprocess_exec(
            *build_command_line(arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=LINE_LIMIT,
            start_new_session=True,
        )
    except OSError as problem:
        raise EngineGone(f"the engine can't be started: {problem}") from problem
    return StdioClient(process)


def build_command_line(arguments: ScreenArguments) -> list[str]:
    """Return the command line that starts this program as an engine."""
    said = [
        f"--{name.replace('_', '-')}={value}"
        for name in _FORWARDED_OPTIONS
        if (value := getattr(arguments, name)) is not None
    ]
    said += ["--trust"] if arguments.trust else []
    said += [] if arguments.private is None else ["--private" if arguments.private else "--no-private"]
    return [*arguments.program, "--engine", *said, "--", str(arguments.directory)]


class StdioClient:
    """A `Client` whose engine is a child process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._decoders: _Decoders | None = None
        self._number = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._streams: dict[int, asyncio.Queue[Envelope | Reject | None]] = {}
        self._last_words: deque[str] = deque(maxlen=MAX_STDERR_LINES)
        self._gone = False
        self._tasks = TaskOwner()
        self._reading = self._tasks.start(self._read_lines(), name="engine lines")
        self._listening = self._tasks.start(self._read_stderr(), name="engine stderr")

    @property
    def pid(self) -> int:
        return self._process.pid

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
                    if self._gone:
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
        stdin = self._process.stdin
        if not self._gone and stdin is not None and not stdin.is_closing():
            stdin.write(encode_record(line) + b"\n")
            with suppress(ConnectionError):
                await stdin.drain()
                return
        await asyncio.wait({self._reading}, timeout=1.0)  # what it said last may still be on its way
        raise self._build_gone_error()

    def _build_gone_error(self, why: str = "") -> EngineGone:
        said = "\n".join(self._last_words)
        return EngineGone("\n".join(filter(None, (why, said))))

    async def _read_lines(self) -> None:
        stdout = self._process.stdout
        try:
            while stdout is not None and (line := await stdout.readline()):
                self._handle_line(line)
        except (ValueError, msgspec.DecodeError) as problem:
            self._last_words.append(f"the engine said what is no line of this protocol: {problem}")
            self._process.kill()
        finally:
            await asyncio.wait({self._listening}, timeout=0.5)
            self._release_waiters()

    def _handle_line(self, line: bytes) -> None:
        said = _lines.decode(line)
        decoders = self._decoders = self._decoders or _Decoders()
        stream = self._streams.get(said.id)
        if said.event != ABSENT:
            if stream is not None:
                stream.put_nowait(decoders.event.decode(said.event))
        elif said.reply != ABSENT:
            reply = decoders.reply.decode(said.reply)
            if stream is not None and isinstance(reply, Reject):
                stream.put_nowait(reply)
            self._resolve(said.id, reply)
        elif said.answer != ABSENT:
            self._resolve(said.id, decoders.answer.decode(said.answer))
        elif said.end and stream is not None:
            stream.put_nowait(None)

    def _resolve(self, number: int, result: object) -> None:
        future = self._waiting.get(number)
        if future is not None and not future.done():
            future.set_result(result)

    def _release_waiters(self) -> None:
        self._gone = True
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(self._build_gone_error())
        for queue in self._streams.values():
            queue.put_nowait(None)

    async def _read_stderr(self) -> None:
        stderr = self._process.stderr
        try:
            while stderr is not None and (line := await stderr.readline()):
                self._last_words.append(line.decode("utf-8", "replace").rstrip())
        except ValueError:  # a line without end
            self._last_words.append("(a line of more than 64 MB)")

    async def close(self) -> None:
        """Close the engine's input and wait until it has written what is left. Safe to call twice."""
        stdin = self._process.stdin
        if stdin is not None and not stdin.is_closing():
            stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), CLOSE_LIMIT)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        await asyncio.wait({self._reading, self._listening}, timeout=1.0)
        self._gone = True
        if sys.version_info < (3, 12) and (transport := getattr(self._process, "_transport", None)) is not None:
            transport.close()
