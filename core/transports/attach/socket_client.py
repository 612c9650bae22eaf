"""The way to a session that an engine has open in another process: its socket."""

from __future__ import annotations

import asyncio
from pathlib import Path

from core.transports.attach.socket_places import find_socket, is_own_peer
from core.transports.line_client import LINE_LIMIT, LineClient


async def connect_to_session(session: str) -> LineClient | None:
    """Connect to the engine that has a session open; None: there is none that can be reached."""
    path = await asyncio.to_thread(find_socket, session)
    return None if path is None else await _connect(path)


async def _connect(path: Path) -> LineClient | None:
    try:
        reader, writer = await asyncio.open_unix_connection(str(path), limit=LINE_LIMIT)
    except OSError:
        return None
    if not is_own_peer(writer.get_extra_info("socket")):
        writer.close()
        return None
    return LineClient(reader, writer)
