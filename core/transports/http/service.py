"""The server as its routes see it: its engines, its background agents, and the check of the rights that were granted.

The store of background agents is shared by the whole machine, or by a team, but a server serves one directory: its
clients do not see agents in the shadow of a project elsewhere, and can't have a repository cloned that lies elsewhere.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import unquote, urlsplit

from msgspec import Struct, field

from core.background.locations import open_configured_store
from core.background.records import BackgroundAgent
from core.background.store import AgentStore
from core.config.loading import load_settings
from core.errors import CommandRejected
from core.protocol import commands as cmd
from core.protocol.client import Client
from core.protocol.queries import Answer, AnyQuery
from core.providers.registry import names_file_or_command
from core.sessions.listing import find_workspace
from core.transports.engines import Engines
from core.transports.http.access import Grant, HttpRefused
from core.transports.http.guard import get_grant
from core.transports.http.port_gates import PortGates
from core.transports.http.sse import StreamCounter
from core.transports.http.terminal import Terminals
from core.transports.session_client import require_ack, require_answer

AGENT_UNKNOWN: Final = "agent_unknown"
_Answer = TypeVar("_Answer", bound=Answer)


class AgentAccess:
    """The background agents of a server of `directory`. `program`: the argv prefix that starts a worker, () = somebody
    else runs the workers."""

    def __init__(self, directory: Path, program: tuple[str, ...] = ()) -> None:
        self.program = program
        self._directory = directory
        self._store: AgentStore | None = None
        self._opening = asyncio.Lock()

    async def open(self) -> AgentStore:
        """Return the store, which is opened at its first use. Raises `ConfigError`, `StateError`,
        `StoreUnavailable`."""
        async with self._opening:
            if self._store is None:
                settings = await asyncio.to_thread(load_settings)
                store = open_configured_store(settings.background)
                await store.open()
                self._store = store
            return self._store

    async def close(self) -> None:
        """Close the store. Safe to call twice."""
        store, self._store = self._store, None
        if store is not None:
            await store.close()

    async def list_agents(self) -> tuple[BackgroundAgent, ...]:
        """Return the agents, the newest first. Raises what `open` raises."""
        store = await self.open()
        return tuple(agent for agent in await store.list_agents() if self._is_visible(agent))

    async def find(self, name: str) -> BackgroundAgent:
        """Return an agent by its id. Raises `CommandRejected`, and what `open` raises."""
        store = await self.open()
        agent = await store.find(name)
        if agent is None or not self._is_visible(agent):
            raise CommandRejected(f"there is no background agent {name[:100]!r}.", code=AGENT_UNKNOWN)
        return agent

    def _is_visible(self, agent: BackgroundAgent) -> bool:
        workspace_path = agent.request.workspace_path
        return not workspace_path or Path(workspace_path).is_relative_to(self._directory)


def find_local_path(url: str) -> str:
    """Return the path of a repository's `file:` URL, "" = it is on another machine. Raises `CommandRejected` for an
    invalid URL."""
    try:
        parts = urlsplit(url)
    except ValueError as problem:
        raise CommandRejected(f"{url[:300]!r} is not an address: {problem}.", code="repository_invalid") from None
    if parts.scheme.lower() != "file":
        return ""
    path = unquote(parts.path)
    if parts.netloc or not path.startswith("/"):
        raise CommandRejected(f"{url[:300]!r} has no path.", hint="file:///path", code="repository_invalid")
    return path


class HttpService(Struct, frozen=True, eq=False):
    """The state that routes share.

    `directory`: the workspace of requests that name none; all served workspaces lie in it. `answering` is held while an
    approval is answered, so that a second answer sees the first. `terminals` None: the web page is not served. `gates`
    None: opened ports are reached from this machine alone.
    """

    engines: Engines
    directory: Path
    agents: AgentAccess
    streams: StreamCounter = field(default_factory=StreamCounter)
    answering: asyncio.Lock = field(default_factory=asyncio.Lock)
    terminals: Terminals | None = None
    gates: PortGates | None = None

    def find_directory(self, path: str) -> Path:
        """Return the workspace of a request ("" = the served one). Raises `CommandRejected`."""
        if not path:
            return self.directory
        try:
            directory = Path(path).resolve(strict=True) if Path(path).is_absolute() and "\0" not in path else None
        except (OSError, RuntimeError):
            directory = None
        if directory is None or not directory.is_dir() or not directory.is_relative_to(self.directory):
            raise CommandRejected(
                f"{path[:300]!r} is not a directory of this server.",
                hint=f"It has to be {self.directory}, or inside it.",
                code="workspace_refused",
            )
        return directory

    async def find(self, session: str) -> Client:
        """Return the engine of a session; a closed session is resumed. Raises `CommandRejected`."""
        workspace = find_workspace(session)
        if workspace is None or not workspace.resolve().is_relative_to(self.directory):
            raise CommandRejected(f"there is no session {session[:100]!r}.", code="session_unknown")
        return await self.engines.find(session)

    async def submit(self, client: Client, command: cmd.AnyCommand) -> cmd.Ack:
        """Submit a command. Raises `CommandRejected` for a rejected one."""
        return require_ack(await client.submit(command))

    async def ask(self, client: Client, query: AnyQuery, kind: type[_Answer]) -> _Answer:
        """Return the answer to a query, which is of one kind. Raises `CommandRejected` for a refused one."""
        answer = require_answer(await client.query(query))
        assert isinstance(answer, kind)
        return answer


def require_model_grant(scope: Any, model: str) -> None:
    """Raise `HttpRefused` for a model that is a file or a command line, unless the request may approve: it makes the
    engine read or start what the client names."""
    if get_grant(scope) < Grant.APPROVE and names_file_or_command(model):
        message = "a model that is a file or a command line needs a token that may approve."
        raise HttpRefused(403, "grant_missing", message, hint="Name a model as PROVIDER/NAME, or an agent as acp/NAME.")


def require_grant(scope: Any, grant: Grant) -> None:
    """Raise `HttpRefused` unless a request has a grant."""
    if get_grant(scope) < grant:
        word = grant.name.lower()
        hint = f"Send the `{word}` token of the server."
        raise HttpRefused(403, "grant_missing", f"this needs a token that may {word}.", hint=hint)
