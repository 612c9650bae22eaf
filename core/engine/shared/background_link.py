"""The link of an engine to the background agents: their store, opened at first use, and updates of their state."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from core.background.locations import get_agents_dir, open_configured_store
from core.background.records import BackgroundAgent
from core.background.store import AgentStore, StoreUnavailable
from core.config.settings import Settings
from core.errors import AgentTuiError
from core.protocol.events import BackgroundAgentInfo, BackgroundReported
from core.tasks import TaskOwner


class BackgroundLink:
    """`announce` is called with changed states. `program`: the argv prefix of this program, which starts a worker."""

    def __init__(
        self, settings: Callable[[], Settings], program: tuple[str, ...], announce: Callable[[BackgroundReported], None]
    ) -> None:
        self.program = program
        self._settings, self._announce = settings, announce
        self._store: AgentStore | None = None
        self._tasks = TaskOwner()
        self._is_watching = False

    async def open(self) -> AgentStore:
        """Return the store. Raises `ConfigError`, `StateError`, `StoreUnavailable`."""
        if self._store is None:
            store = open_configured_store(self._settings().background)
            await store.open()
            self._store = store
        self._watch()
        return self._store

    def start_watching(self) -> None:
        """Watch the agents if there are any on this machine; without agents nothing is opened."""
        if (get_agents_dir() / "agents.sqlite").exists():
            self._tasks.spawn(self._open_quietly(), name="background agents")

    async def _open_quietly(self) -> None:
        with contextlib.suppress(AgentTuiError):  # a query for the agents reports the same error
            await self.open()

    def _watch(self) -> None:
        if not self._is_watching:
            self._is_watching = True
            self._tasks.spawn(self._follow(), name="news of background agents")

    async def _follow(self) -> None:
        assert self._store is not None
        before: tuple[BackgroundAgentInfo, ...] = ()
        async for _ in self._store.watch():
            with contextlib.suppress(StoreUnavailable):
                agents = await self.list_agents()
                if agents != before:
                    before = agents
                    self._announce(BackgroundReported(agents=agents))

    async def list_agents(self) -> tuple[BackgroundAgentInfo, ...]:
        """Return the agents, the newest first. Raises as `open`."""
        store = await self.open()
        return tuple(_build_info(agent) for agent in await store.list_agents())

    async def close(self) -> None:
        """Close the store. Safe to call twice."""
        await self._tasks.cancel()
        store, self._store = self._store, None
        if store is not None:
            await store.close()


def _build_info(agent: BackgroundAgent) -> BackgroundAgentInfo:
    request = agent.request
    return BackgroundAgentInfo(
        id=agent.id,
        title=agent.title,
        state=agent.state,
        place=request.repository_url or request.workspace_path,
        created=agent.created,
        started=agent.started,
        ended=agent.ended,
        session=agent.session,
        model=request.model,
        message=agent.message,
        waits_for=agent.waits_for,
        pending=agent.pending,
        cost=agent.cost,
        estimated=agent.estimated,
        pulled=agent.pulled,
    )
