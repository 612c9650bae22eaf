"""The interface of stores of background agents for workers and commands; every backend is one class.

Writes of a worker are fenced by the attempt in which it took the agent: after another worker took it over, `update` and
`store_log` of the former have no effect and return False, so that nothing is done twice.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, Final, Protocol

from core.background.records import AgentMessage, BackgroundAgent
from core.errors import AgentTuiError, CommandRejected

Work = Callable[[BackgroundAgent], Coroutine[Any, Any, None]]
LEASE_SECONDS: Final = 30.0  # after which another worker takes over an agent of a silent one


class StoreUnavailable(AgentTuiError, code="store_unavailable"):
    """The store is unreachable now, but may be available later."""


class AgentStore(Protocol):
    """A store of agents. Raises `StoreUnavailable` if its backend is unreachable."""

    stores_sessions: bool  # it holds logs and blobs, so that another machine can continue

    async def open(self) -> None:
        """Connect, and create missing tables."""

    async def close(self) -> None:
        """Disconnect. Idempotent."""

    async def add(self, agent: BackgroundAgent) -> None:
        """Store a new agent and wake a worker."""

    async def find(self, name: str) -> BackgroundAgent | None:
        """Return an agent."""

    async def list_agents(self) -> list[BackgroundAgent]:
        """Return all agents, newest first."""

    async def update(self, agent: BackgroundAgent, changes: Mapping[str, Any]) -> BackgroundAgent | None:
        """Change fields of an agent if its `attempt` is current; return the result, None: it is not."""

    async def change_state(self, name: str, changes: Mapping[str, Any], *, only_in: frozenset[str]) -> bool:
        """Change fields of an agent in one of these states, whatever its attempt."""

    async def delete(self, name: str) -> None:
        """Delete an agent with all its data."""

    async def queue(self, name: str) -> None:
        """Queue an ended agent again and wake a worker."""

    async def post(self, name: str, command: Mapping[str, Any]) -> None:
        """Store a message for an agent, and wake its worker."""

    async def list_messages(self, name: str, after: int) -> list[AgentMessage]:
        """Return the messages after a number, in order."""

    async def work(self, worker: str, concurrency: int, run: Work) -> None:
        """Run queued agents, and those of dead workers, until cancelled."""

    def watch(self) -> AsyncIterator[str]:
        """Yield the id of every changed agent at least once; "" from time to time."""

    async def store_log(self, agent: BackgroundAgent, start: int, data: bytes) -> bool:
        """Store bytes of a session's log at an offset."""

    async def read_log(self, name: str) -> bytes:
        """Return the stored log of a session."""

    async def store_file(self, name: str, path: str, data: bytes) -> None:
        """Store a file of a session, by its path below the session's directory."""

    async def read_files(self, name: str) -> AsyncIterator[tuple[str, bytes]]:
        """Yield the stored files of a session."""
        yield "", b""  # pragma: no cover (a protocol)


async def require_agent(store: AgentStore, name: str) -> BackgroundAgent:
    """Return an agent by its id or a unique prefix of it. Raises `CommandRejected`."""
    if (agent := await store.find(name)) is not None:
        return agent
    candidates = [candidate for candidate in await store.list_agents() if name and candidate.id.startswith(name)]
    if len(candidates) == 1:
        return candidates[0]
    reason = "several agents start with this id" if candidates else "there is no background agent with this id"
    raise CommandRejected(f"{name!r}: {reason}.", hint="agent-tui agents list", code="agent_unknown")
