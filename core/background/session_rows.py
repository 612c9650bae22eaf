"""Logs and files of a team's sessions: rows of its database, or objects that a row names.

A file is in the object store before its row is written, so whatever a row names is there. Which of the two holds a file
is told by the rows, not by the setting: what was kept before the setting was changed is found where it is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from core.background.object_store import ObjectStore
from core.background.records import BackgroundAgent
from core.errors import ConfigError

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS agent_tui_log (
    agent text NOT NULL, start bigint NOT NULL, data bytea NOT NULL, PRIMARY KEY (agent, start));
CREATE TABLE IF NOT EXISTS agent_tui_files (
    agent text NOT NULL, path text NOT NULL, data bytea NOT NULL, PRIMARY KEY (agent, path));
CREATE TABLE IF NOT EXISTS agent_tui_objects (
    agent text NOT NULL, path text NOT NULL, place text NOT NULL, PRIMARY KEY (agent, path));
"""


class SessionRows:
    """The kept logs and files of sessions. `execute` runs one statement and returns its rows; `objects` None = files
    are rows, too. Raises what these raise."""

    def __init__(self, execute: Callable[..., Awaitable[list[tuple[Any, ...]]]], objects: ObjectStore | None) -> None:
        self._execute, self._objects = execute, objects

    async def keep_log(self, agent: BackgroundAgent, start: int, data: bytes) -> bool:
        rows = await self._execute(
            "INSERT INTO agent_tui_log (agent, start, data) SELECT %s, %s, %s"
            " WHERE EXISTS (SELECT 1 FROM agent_tui_agents WHERE id = %s AND attempt = %s)"
            " ON CONFLICT (agent, start) DO UPDATE SET data = excluded.data RETURNING start",
            (agent.id, start, data, agent.id, agent.attempt),
        )
        return bool(rows)

    async def read_log(self, name: str) -> bytes:
        rows = await self._execute("SELECT start, data FROM agent_tui_log WHERE agent = %s ORDER BY start", (name,))
        log = bytearray()
        for start, data in rows:
            if start > len(log):
                break  # what follows a gap was never whole
            del log[start:]
            log += bytes(data)
        return bytes(log)

    async def keep_file(self, name: str, path: str, data: bytes) -> None:
        if self._objects is None:
            await self._execute(
                "INSERT INTO agent_tui_files (agent, path, data) VALUES (%s, %s, %s)"
                " ON CONFLICT (agent, path) DO UPDATE SET data = excluded.data",
                (name, path, data),
            )
            return
        await self._objects.keep(name, path, data)
        await self._execute(
            "INSERT INTO agent_tui_objects (agent, path, place) VALUES (%s, %s, %s)"
            " ON CONFLICT (agent, path) DO UPDATE SET place = excluded.place",
            (name, path, self._objects.place),
        )

    async def read_files(self, name: str) -> AsyncIterator[tuple[str, bytes]]:
        """Yield path and bytes of each file that is kept of a session."""
        rows = await self._execute("SELECT path FROM agent_tui_files WHERE agent = %s ORDER BY path", (name,))
        for (path,) in rows:
            query = "SELECT data FROM agent_tui_files WHERE agent = %s AND path = %s"
            file_rows = await self._execute(query, (name, path))
            if file_rows:
                yield path, bytes(file_rows[0][0])
        for path, location in await self._list_objects(name):
            yield path, await self._require_objects(location).read(name, path)

    async def delete(self, name: str) -> None:
        """Delete all of a session; the rows go last, so that what could not be deleted can be tried again."""
        for _, location in (await self._list_objects(name))[:1]:
            self._require_objects(location)
        if self._objects is not None:
            await self._objects.delete(name)
        for table in ("log", "files", "objects"):
            await self._execute(f"DELETE FROM agent_tui_{table} WHERE agent = %s", (name,))

    async def _list_objects(self, name: str) -> list[tuple[Any, ...]]:
        return await self._execute("SELECT path, place FROM agent_tui_objects WHERE agent = %s ORDER BY path", (name,))

    def _require_objects(self, location: str) -> ObjectStore:
        if self._objects is None:
            hint = f"Set background.blobs to it: {location}?endpoint=…&region=…"
            raise ConfigError(f"Files of this agent are in {location}, and no object store is configured.", hint=hint)
        return self._objects
