"""The client's end of the stdio transport: starts the engine as a child process and exchanges JSON lines with it.

The engine runs in its own process session, so that no signal of the terminal reaches it. It ends with its standard
input, unless it announces that it stays, because it was detached or has another client. Then it outlives this process.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from typing import IO, TYPE_CHECKING, Final

from core.protocol.client import Client, EngineGone
from core.transports.line_client import LINE_LIMIT, LineClient

if TYPE_CHECKING:
    from core.arguments import ScreenArguments

CLOSE_LIMIT: Final = 15.0
_FORWARDED_OPTIONS: Final = ("mode", "model", "effort", "max_steps", "max_cost", "max_tokens")


async def reach_engine(arguments: ScreenArguments, session: str) -> Client:
    """Connect to the engine that has the session ("" = a new one) open, or start one. Raises `EngineGone`."""
    if session:
        from core.transports.session_sockets import connect_to_session

        if (client := await connect_to_session(session)) is not None:
            return client
    return await connect(arguments)


async def connect(arguments: ScreenArguments) -> StdioClient:
    """Start an engine for `arguments.directory`. Raises `EngineGone` if it can't be started."""
    try:
        process = _start_engine(arguments)
    except OSError as problem:
        raise EngineGone(f"the engine can't be started: {problem}") from problem
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    with contextlib.ExitStack() as exit_stack:  # a cancellation must not leak the process or its pipes
        exit_stack.callback(process.wait)
        exit_stack.callback(process.kill)
        for pipe in (process.stdin, process.stdout, process.stderr):
            exit_stack.callback(pipe.close)
        writer = await _open_writer(process.stdin)
        exit_stack.callback(writer.close)
        reader, output = await _open_reader(process.stdout)
        exit_stack.callback(output.close)
        errors, errors_output = await _open_reader(process.stderr)
        exit_stack.pop_all()
    return StdioClient(process, (reader, errors), writer, (output, errors_output))


def _start_engine(arguments: ScreenArguments) -> subprocess.Popen[bytes]:
    """Start the engine without asyncio, which kills a child that is to outlive its parent."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        build_command_line(arguments), stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True
    )


async def _open_reader(pipe: IO[bytes]) -> tuple[asyncio.StreamReader, asyncio.BaseTransport]:
    reader = asyncio.StreamReader(limit=LINE_LIMIT)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader, transport


async def _open_writer(pipe: IO[bytes]) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(lambda: asyncio.streams.FlowControlMixin(loop), pipe)
    return asyncio.StreamWriter(transport, protocol, None, loop)


def build_command_line(arguments: ScreenArguments) -> list[str]:
    """Return the command line that starts this program as an engine."""
    options = [
        f"--{name.replace('_', '-')}={value}"
        for name in _FORWARDED_OPTIONS
        if (value := getattr(arguments, name)) is not None
    ]
    options += ["--trust"] if arguments.trust else []
    options += [f"--sandbox={arguments.tier}"] if arguments.tier is not None else []
    options += ["--i-know"] if arguments.i_know else []
    options += [] if arguments.private is None else ["--private" if arguments.private else "--no-private"]
    return [*arguments.program, "--engine", *options, "--", str(arguments.directory)]


class StdioClient(LineClient):
    """A `Client` whose engine is a child process."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        readers: tuple[asyncio.StreamReader, asyncio.StreamReader],
        writer: asyncio.StreamWriter,
        outputs: tuple[asyncio.BaseTransport, ...],
    ) -> None:
        super().__init__(readers[0], writer)
        self._process, self._errors, self._outputs = process, readers[1], outputs
        self._listening = self._tasks.start(self._read_stderr(), name="engine stderr")

    @property
    def pid(self) -> int:
        return self._process.pid

    def _on_protocol_error(self) -> None:
        self._process.kill()

    async def _collect_error_lines(self) -> None:
        await asyncio.wait({self._listening}, timeout=0.5)

    async def _read_stderr(self) -> None:
        try:
            while line := await self._errors.readline():
                self._error_lines.append(line.decode("utf-8", "replace").rstrip())
        except ValueError:  # a line beyond the limit
            self._error_lines.append("(a line of more than 64 MB)")

    async def close(self) -> None:
        """Close the engine's input and wait until it has written the rest. Safe to call twice."""
        if not self._writer.is_closing():
            self._writer.close()
        await asyncio.wait({self._reading}, timeout=CLOSE_LIMIT)
        if self.stays:
            self._process.returncode = 0  # the engine outlives this process, so Popen must not wait for it
        else:
            await self._wait_ended()
        await self._tasks.cancel()
        self.is_gone = True
        for output in self._outputs:
            output.close()

    async def _wait_ended(self) -> None:
        try:
            await asyncio.to_thread(self._process.wait, CLOSE_LIMIT if self._reading.done() else 0.1)
        except subprocess.TimeoutExpired:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)
        await asyncio.wait({self._reading, self._listening}, timeout=1.0)
