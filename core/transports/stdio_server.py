"""Serve an engine as a child process: JSON lines, commands and queries on standard input, replies and events on
standard output; further clients come by the sockets of its sessions.

The end of standard input means that this client is gone: what runs is interrupted and the sessions are closed, but for
those that were detached or that another client has open. The process ends with its last session.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import Final

from core.cli.arguments import EngineArguments
from core.engine import Engine
from core.engine.shared.models import ModelAccess
from core.exits import ExitCode
from core.transports.attach.engine_host import EngineHost, Seat
from core.transports.line_server import LINE_LIMIT, LineServer
from core.transports.standard_streams import open_standard_streams

CLOSE_LIMIT: Final = 12.0
_SIGNAL_AT_PARENT_DEATH: Final = 1  # PR_SET_PDEATHSIG


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
    """Ignore the terminal's signals, which are the client's business. Its death is told by a signal of its own."""
    for name in ("SIGINT", "SIGHUP", "SIGTTOU", "SIGTTIN"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    if sys.platform.startswith("linux"):
        import ctypes

        with contextlib.suppress(OSError, AttributeError):  # its standard input tells, too
            ctypes.CDLL(None).prctl(_SIGNAL_AT_PARENT_DEATH, signal.SIGUSR1)


async def _serve(arguments: EngineArguments, channel: int, models: ModelAccess | None) -> None:
    streams = await open_standard_streams(channel, limit=LINE_LIMIT)
    host = EngineHost(Engine(arguments.directory, options=arguments, models=models))
    seat = host.open_seat()
    server = LineServer(seat, streams.writer)
    serving = asyncio.create_task(_serve_screen(host, seat, server, streams.reader), name="screen")
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await serving
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(host.close(), CLOSE_LIMIT)
    await server.close()
    await streams.close()


async def _serve_screen(host: EngineHost, seat: Seat, server: LineServer, reader: asyncio.StreamReader) -> None:
    """Serve the client of the standard streams, and then wait until the sessions that others have open have ended."""
    listening = asyncio.create_task(server.listen(reader), name="lines")
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, listening.cancel)
    try:
        await asyncio.wait({listening})
    finally:
        listening.cancel()
    with contextlib.suppress(asyncio.CancelledError, ConnectionError):
        await listening
    if not host.outlives(seat):
        return
    server.send_stays()
    await server.close()
    _let_go_of_streams()
    await seat.close()
    await host.wait_ended()


def _let_go_of_streams() -> None:
    """Let nothing wait for this process by a pipe to it."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(nothing, stream)
    os.close(nothing)
