"""The background agents that a server reaches: their store, opened at first use, and which of them it tells of.

The store is the whole machine's, or a team's. A server is about one directory: agents in the shadow of another project
are not there for its clients, nor can a client have a repository of this machine cloned that lies elsewhere.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from core.background.locations import open_configured_store
from core.background.records import BackgroundAgent
from core.background.store import AgentStore
from core.config.loading import load_settings
from core.errors import CommandRejected

UNKNOWN: Final = "agent_unknown"


class AgentAccess:
    """The agents of a server of `directory`. `program`: the argv prefix by which a worker is started, () = a worker is
    somebody else's affair."""

    def __init__(self, directory: Path, program: tuple[str, ...] = ()) -> None:
        self.program = program
        self._directory = directory
        self._store: AgentStore | None = None
        self._opening = asyncio.Lock()

    async def open(self) -> AgentStore:
        """Return the store. Raises `ConfigError`, `StateError`, `StoreUnavailable`."""
        async with self._opening:
            if self._store is None:
                settings = await asyncio.to_thread(load_settings)
                store = open_configured_store(settings.background)
                await store.open()
                self._store = store
            return self._store

    async def close(self) -> None:
        """Let go of the store. Safe to call twice."""
        store, self._store = self._store, None
        if store is not None:
            await store.close()

    async def list_agents(self) -> tuple[BackgroundAgent, ...]:
        """Return the agents, the newest first. Raises as `open`."""
        store = await self.open()
        return tuple(agent for agent in await store.list_agents() if self._is_told(agent))

    async def find(self, name: str) -> BackgroundAgent:
        """Return an agent by its id. Raises `CommandRejected`, or as `open`."""
        store = await self.open()
        agent = await store.find(name)
        if agent is None or not self._is_told(agent):
            raise CommandRejected(f"there is no background agent {name[:100]!r}.", code=UNKNOWN)
        return agent

    def _is_told(self, agent: BackgroundAgent) -> bool:
        workspace_path = agent.request.workspace_path
        return not workspace_path or Path(workspace_path).is_relative_to(self._directory)


def find_local_path(url: str) -> str:
    """Return the path that the address of a repository names on this machine, "" = it is on another one. Raises
    `CommandRejected` for one that is neither."""
    try:
        parts = urlsplit(url)
    except ValueError as problem:
        raise CommandRejected(f"{url[:300]!r} is no address: {problem}.", code="repository_invalid") from None
    if parts.scheme.lower() != "file":
        return ""
    path = unquote(parts.path)
    if parts.netloc or not path.startswith("/"):
        raise CommandRejected(f"{url[:300]!r} names no path.", hint="file:///path", code="repository_invalid")
    return path
