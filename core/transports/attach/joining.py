"""Work in a session wherever it is open: by the engine that has it, and by one of our own only if none does.

A session has one writer. So what an editor, a server or a screen holds is reviewed through that program's engine, and
its lock is no obstacle.
"""

from __future__ import annotations

from pathlib import Path

from core.engine import Engine
from core.errors import CommandRejected
from core.protocol import commands as cmd
from core.protocol.client import Client, EngineGone
from core.protocol.options import EngineOptions
from core.transports.attach.socket_client import connect_to_session
from core.transports.line_client import LineClient
from core.transports.session_view import require_ack


async def join_session(session: str) -> LineClient | None:
    """Return a connection that has a session open which an engine of another process has; None: there is none."""
    if (client := await connect_to_session(session)) is None:
        return None
    try:
        require_ack(await client.submit(cmd.SessionResume(session=session)))
    except (CommandRejected, EngineGone):
        await client.close()
        return None
    return client


async def resume_session(directory: Path, session: str, options: EngineOptions) -> Client:
    """Return a client that has a session open: of the engine that runs it, else of one that is made for it. Raises
    `CommandRejected`."""
    if (client := await join_session(session)) is not None:
        return client
    engine = Engine(directory, options=options)
    try:
        require_ack(await engine.submit(cmd.SessionResume(session=session)))
    except BaseException:
        await engine.close()
        raise
    return engine
