"""The store of background agents, as workers and commands see it; each backend is one class.

What a worker writes is fenced by the attempt in which it took the agent up: once another one has, `update` and
`store_log` of the former have no effect and return False, so nothing is done twice.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, Final, Protocol

from core.background.records import AgentMessage, BackgroundAgent
from core.errors import AgentTuiError, CommandRejected

Work = Callable[[BackgroundAgent], Coroutine[Any, Any, None]]
LEASE_SECONDS: Final = 30.0  # after which an agent of a worker that said nothing is taken up by another one


class StoreUnavailable(AgentTuiError, code="store_unavailable"):
    """The store can't be reached now; it may be later."""


class AgentStore(Protocol):
    """Raises `StoreUnavailable` where its backend is away."""

    stores_sessions: bool  # logs and blobs are kept in it, so that another machine can go on

    async def open(self) -> None:
        """Connect, and make what is missing."""

    async def close(self) -> None:
        """Let go of it. Safe to call twice."""

    async def add(self, agent: BackgroundAgent) -> None:
        """Keep a new agent and wake a worker."""

    async def find(self, name: str) -> BackgroundAgent | None:
        """Return an agent."""

    async def list_agents(self) -> list[BackgroundAgent]:
        """Return all, the newest first."""

    async def update(self, agent: BackgroundAgent, changes: Mapping[str, Any]) -> BackgroundAgent | None:
        """Change fields of an agent whose `attempt` still holds; return it as it is then, None: it does not hold."""

    async def change_state(self, name: str, changes: Mapping[str, Any], *, only_in: frozenset[str]) -> bool:
        """Change fields of an agent that is in one of these states, whoever works on it."""

    async def delete(self, name: str) -> None:
        """Forget an agent with all that is kept of it."""

    async def queue(self, name: str) -> None:
        """Have an agent taken up (again) and wake a worker."""

    async def post(self, name: str, command: Mapping[str, Any]) -> None:
        """Leave a message for an agent, and wake who works on it."""

    async def list_messages(self, name: str, after: int) -> list[AgentMessage]:
        """Return the messages behind a number, in their order."""

    async def work(self, worker: str, concurrency: int, run: Work) -> None:
        """Run queued agents, and those of workers that are gone, until cancelled."""

    def watch(self) -> AsyncIterator[str]:
        """Yield the id of an agent that is news (at least one for each); "" now and then."""

    async def store_log(self, agent: BackgroundAgent, start: int, data: bytes) -> bool:
        """Keep bytes of a session's log, at their place."""

    async def read_log(self, name: str) -> bytes:
        """Return what is kept of a session's log."""

    async def store_file(self, name: str, path: str, data: bytes) -> None:
        """Keep a file of a session, by its path below the session's directory."""

    async def read_files(self, name: str) -> AsyncIterator[tuple[str, bytes]]:
        """Yield the kept files of a session."""
        yield "", b""  # pragma: no cover (a protocol)


async def require_agent(store: AgentStore, name: str) -> BackgroundAgent:
    """Return an agent by its id, or the beginning of it that names one. Raises `CommandRejected`."""
    if (agent := await store.find(name)) is not None:
        return agent
    candidates = [candidate for candidate in await store.list_agents() if name and candidate.id.startswith(name)]
    if len(candidates) == 1:
        return candidates[0]
    reason = "several agents begin so" if candidates else "there is no background agent of this id"
    raise CommandRejected(f"{name!r}: {reason}.", hint="agent-tui agents list", code="agent_unknown")
