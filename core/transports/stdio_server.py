"""Serve an engine over standard input and output, as JSON lines; other clients connect to the sockets of its sessions.

The end of standard input means that this client is gone: running work is interrupted and the sessions are closed,
except for those that were detached or that another client has open. The process ends with its last session.

A pipe's transport, unlike a socket's, does not notice that it is closed already: a second abort reports to a protocol
that is gone, and the event loop prints a traceback. So every stream is closed once, and before the loop ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import stat
import sys
from typing import BinaryIO, Final

from msgspec import Struct

from core.arguments import EngineArguments
from core.engine import Engine
from core.engine.shared.models import ModelAccess
from core.exits import ExitCode
from core.transports.engine_host import EngineHost, SharedClient
from core.transports.line_server import LINE_LIMIT, LineServer

CLOSE_LIMIT: Final = 12.0
_SIGNAL_AT_PARENT_DEATH: Final = 1  # PR_SET_PDEATHSIG
_MAX_ARENAS: Final = -8  # M_ARENA_MAX
_HIGH_DESCRIPTOR: Final = 10  # above those that libraries take for standard streams


class StandardStreams(Struct, eq=False, frozen=True):
    """`reader`: the bytes from the client; `writer`: the bytes to it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    _input: asyncio.ReadTransport

    async def close(self) -> None:
        """Close both streams, without waiting for a client that does not read. Closed streams stay as they are."""
        output = self.writer.transport
        if not output.is_closing() or output.get_write_buffer_size():
            output.abort()
        self._input.close()
        await asyncio.sleep(0)  # the loop closes the descriptors in its next round


async def open_standard_streams(channel: int, *, limit: int) -> StandardStreams:
    """Open the streams over standard input and `channel`, a copy of standard output that is closed with them. `limit`:
    bytes of a line. Raises `ValueError` where one of them is no pipe, socket or terminal."""
    for descriptor in (0, channel):
        if not _can_be_awaited(descriptor):
            raise ValueError(f"descriptor {descriptor} is not a pipe, socket or terminal")
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=limit, loop=loop)
    source, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), _move_standard_input())
    try:
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.streams.FlowControlMixin(loop), os.fdopen(channel, "wb", buffering=0)
        )
    except ValueError:
        source.close()
        raise
    return StandardStreams(reader, asyncio.StreamWriter(transport, protocol, None, loop), source)


def _move_standard_input() -> BinaryIO:
    """Return standard input by a high descriptor, and leave the null device at its place.

    A library that closes descriptor 0 by mistake then closes nothing (the watch of files on macOS does: FSEvents by
    notify 8.0), and what is started by mistake without an input of its own does not read the client's lines.
    """
    moved = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, _HIGH_DESCRIPTOR)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return os.fdopen(moved, "rb", buffering=0)


def _can_be_awaited(descriptor: int) -> bool:
    """Return True for a pipe, socket or terminal. asyncio accepts other devices, such as /dev/null, and then waits for
    ever, as the kernel never reports them as ready."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


def serve(arguments: EngineArguments, *, models: ModelAccess | None = None) -> int:
    """Run an engine for the client at the other end of standard input and output."""
    _ignore_terminal_signals()
    _share_arena()
    channel = os.dup(1)
    os.dup2(2, 1)  # output that a library prints must not mix with the lines
    try:
        asyncio.run(_serve(arguments, channel, models))
    except (BrokenPipeError, ConnectionResetError):
        return ExitCode.DONE
    return ExitCode.DONE


def _ignore_terminal_signals() -> None:
    """Ignore the terminal's signals, which concern the client. SIGUSR1 signals the client's death."""
    for name in ("SIGINT", "SIGHUP", "SIGTTOU", "SIGTTIN"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    if sys.platform.startswith("linux"):
        import ctypes

        with contextlib.suppress(OSError, AttributeError):  # the end of standard input has the same effect
            ctypes.CDLL(None).prctl(_SIGNAL_AT_PARENT_DEATH, signal.SIGUSR1)


def _share_arena() -> None:
    """Have all threads allocate from one arena of the C library. It gives each of them an arena of its own, which keeps
    what the thread has freed: megabytes for nothing, as Python's lock lets one thread work at a time."""
    if sys.platform.startswith("linux"):
        import ctypes

        with contextlib.suppress(OSError, AttributeError):  # of another C library
            ctypes.CDLL(None).mallopt(_MAX_ARENAS, 1)


async def _serve(arguments: EngineArguments, channel: int, models: ModelAccess | None) -> None:
    streams = await open_standard_streams(channel, limit=LINE_LIMIT)
    host = EngineHost(Engine(arguments.directory, options=arguments, models=models))
    client = host.create_client()
    server = LineServer(client, streams.writer)
    serving = asyncio.create_task(_serve_screen(host, client, server, streams.reader), name="screen")
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await serving
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(host.close(), CLOSE_LIMIT)
    await server.close()
    await streams.close()


async def _serve_screen(
    host: EngineHost, client: SharedClient, server: LineServer, reader: asyncio.StreamReader
) -> None:
    """Serve the client of the standard streams, then wait until the sessions that others have open have ended."""
    listening = asyncio.create_task(server.listen(reader), name="lines")
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, listening.cancel)
    try:
        await asyncio.wait({listening})
    finally:
        listening.cancel()
    with contextlib.suppress(asyncio.CancelledError, ConnectionError):
        await listening
    if not host.outlives(client):
        return
    server.send_stays()
    await server.close()
    _detach_streams()
    await client.close()
    await host.wait_ended()


def _detach_streams() -> None:
    """Point the standard streams to /dev/null, so that nothing waits for this process by a pipe."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(nothing, stream)
    os.close(nothing)
