"""Serve one ACP client over standard input and output. The end of standard input means that the client is gone.

Only the protocol reaches standard output: its descriptor is moved at the start, and whatever a library or a tool prints
goes to standard error.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from typing import Final

from core.acp.connection import Connection
from core.engine import Engine
from core.engine.shared.models import ModelAccess
from core.errors import ConfigError
from core.transports.acp.agent import AcpAgent, AgentTerms
from core.transports.engine_host import share_engine
from core.transports.engines import Engines
from core.transports.stdio_server import open_standard_streams

CHUNK: Final = 1 << 16
CLOSE_SECONDS: Final = 12.0


def serve(terms: AgentTerms, *, models: ModelAccess | None = None) -> None:
    """Serve until the client is gone. Raises `ConfigError` if standard input and output lead to no client."""
    for name in ("SIGINT", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)  # signals of the editor's terminal concern the editor
    channel = os.dup(1)
    os.dup2(2, 1)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        asyncio.run(_serve(terms, channel, models))


async def _serve(terms: AgentTerms, channel: int, models: ModelAccess | None) -> None:
    try:
        streams = await open_standard_streams(channel, limit=CHUNK)
    except ValueError:
        raise ConfigError(
            "agent-tui acp talks to an editor over standard input and output, which have to be pipes.",
            hint="Let your editor start it: agent-tui help editors.",
        ) from None
    writer = streams.writer
    engines = Engines(
        terms.options, lambda directory, options: share_engine(Engine(directory, options=options, models=models))
    )
    agent = AcpAgent(engines, terms, writer.drain)
    peer = agent.peer = Connection(lambda data: None if writer.transport.is_closing() else writer.write(data), agent)
    listening = asyncio.create_task(_listen(streams.reader, peer), name="lines")
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, listening.cancel)
    with contextlib.suppress(asyncio.CancelledError, ConnectionError):
        await listening
    peer.close("the editor is gone")
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(agent.close(), CLOSE_SECONDS)
    await streams.close()


async def _listen(reader: asyncio.StreamReader, peer: Connection) -> None:
    while data := await reader.read(CHUNK):
        peer.feed(data)
