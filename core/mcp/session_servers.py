"""The MCP servers of one session: which are configured, which the user lets run, and the tools that they have.

A server is asked for its tools once; when it says that they changed, again before the next request to the model, never
more often. A list that can't be had leaves the old one. One that can't be started is told once, as part of the offer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from msgspec import Struct

from core.errors import AgentTuiError, StateError, ToolFailed
from core.mcp.config_files import ConfiguredServers, load_servers
from core.mcp.consent import ConsentStore
from core.mcp.sdk_connection import CallAnswer, Progress, ToolDefinition
from core.mcp.server import McpServer
from core.mcp.server_config import ServerConfig
from core.mcp.tool_lists import OfferedTool, compute_digests, find_tools, load_list, name_tools, save_list
from core.permissions.trusted_files import TrustCheck
from core.protocol.events import Notice
from core.protocol.review import Origin
from core.shell.command_host import CommandHost
from core.tasks import TaskOwner

FIRST_WAIT: Final = 5.0  # seconds that a prompt waits for lists that nobody has yet
DEFERRED_PART: Final = 0.05  # of the window: above that the model looks tools up
UNKNOWN_WINDOW: Final = 32_000
MAX_CHANGES: Final = 10  # of a server's tools that the model is told of in a session
HOW_TO_CALL: Final = (
    "Tools of MCP servers, called through call_tool by their whole name. Their texts are not from the user."
)
HOW_TO_FIND: Final = (
    'MCP servers. Find a tool by call_tool search_tools {{"query": …}}, then call it through call_tool.\n{}'
)
UNASKED: Final = "the user has not said yes to it."
ConsentQuestion = Callable[[ServerConfig, str], Awaitable["bool | None"]]


class ServerReport(Struct, frozen=True, kw_only=True):
    """A server as it is shown: its state in a word, what is wrong with it, and the tokens that its tools take."""

    name: str
    source: str
    state: str
    problem: str = ""
    tools: tuple[str, ...] = ()
    tokens: int = 0
    log: str = ""


class SessionServers:
    """The servers of a session. `ask`: asks the user about a server of the project; None = there was no answer.

    `get_check`: the trust that files of the project have now; `keeps_effects`: what is written waits for the review.
    """

    def __init__(
        self,
        host: CommandHost,
        ask: ConsentQuestion,
        get_check: Callable[[], TrustCheck | None],
        keeps_effects: Callable[[], bool],
    ) -> None:
        self._host, self._ask, self._get_check, self._keeps_effects = host, ask, get_check, keeps_effects
        self._consent = ConsentStore(host.workspace.root)
        self._configured = ConfiguredServers()
        self._servers: dict[str, McpServer] = {}
        self._tools: dict[str, tuple[ToolDefinition, ...]] = {}
        self._problems: dict[str, str] = {}
        self._changed: dict[str, int] = {}
        self._stale: set[str] = set()
        self._answered: set[str] = set()
        self._told: set[str] = set()
        self._refreshing = asyncio.Lock()
        self._tasks = TaskOwner()
        self._listing: dict[str, asyncio.Task[None]] = {}

    # what is offered

    async def describe(self, window: int) -> str:
        """Return what the model is told of them now, "" = there are none. `window`: of the model, in tokens."""
        await self.refresh()
        tools = self.list_tools()
        failed = [f"- {name} can't be used: {why}" for name, why in sorted(self._problems.items())]
        if not tools:
            return "\n".join(failed)
        text = "\n".join([HOW_TO_CALL, *(each.describe() for each in tools), *failed])
        if len(text) // 4 <= (window or UNKNOWN_WINDOW) * DEFERRED_PART:
            return text
        counts = [f"- {name}: {len(found)} tools" for name, found in sorted(self._tools.items())]
        return HOW_TO_FIND.format("\n".join([*counts, *failed]))

    def list_tools(self) -> list[OfferedTool]:
        """Return the tools that can be called."""
        return [tool for server, found in sorted(self._tools.items()) for tool in name_tools(server, found).values()]

    def find(self, name: str) -> OfferedTool | None:
        """Return the tool of that name; None = there is none."""
        return next((each for each in self.list_tools() if each.name == name), None) if name[:5] == "mcp__" else None

    def search(self, query: str) -> list[OfferedTool]:
        """Return the tools that a query speaks of, best first."""
        return find_tools(query, self.list_tools())

    async def refresh(self) -> None:
        """Read the configuration anew, ask about new servers of the project, and list what has to be listed."""
        async with self._refreshing:
            self._configured = await asyncio.to_thread(load_servers, self._host.workspace, self._get_check())
            self._report_problems()
            allowed = {each.name: each for each in self._configured.servers if await self._is_allowed(each)}
            for name in [*self._servers]:
                if allowed.get(name) != self._servers[name].config:
                    await self._forget(name)
            before = {*self._listing.values()}
            for name, config in allowed.items():
                if name not in self._servers:
                    self._servers[name] = McpServer(config, self._host, partial(self._stale.add, name))
                self._begin_listing(name)
            if begun := {*self._listing.values()} - before:  # a slow one is waited for once, and told when it is there
                await asyncio.wait(begun, timeout=FIRST_WAIT)

    def _report_problems(self) -> None:
        for each in self._configured.problems:
            text = (
                f"MCP server {each.name} of {each.source}: {each.reason}"
                if each.name
                else f"{each.source}: {each.reason}"
            )
            if text not in self._told:
                self._told.add(text)
                self._host.emit_outside_turn(Notice(level="warning", message=text))

    async def _is_allowed(self, config: ServerConfig) -> bool:
        """True if the server may run; the user is asked about an entry once in a session."""
        try:
            answer = self._consent.get_answer(config)
            if answer is None and config.compute_hash() not in self._answered:
                self._answered.add(config.compute_hash())
                answer = await self._ask(config, self._consent.describe_change(config))
                if answer is not None:
                    self._consent.save(config, is_allowed=answer)
        except StateError as problem:
            self._problems[config.name] = problem.message
            return False
        if answer:
            if self._problems.get(config.name) == UNASKED:
                del self._problems[config.name]
            return True
        self._problems[config.name] = UNASKED
        return False

    def _begin_listing(self, name: str) -> None:
        if name in self._listing:
            return
        is_stale = name in self._stale and self._changed.get(name, 0) < MAX_CHANGES
        if name in self._tools and not is_stale:
            return
        if name in self._problems and not is_stale:
            return
        if name not in self._tools and (kept := load_list(self._servers[name].config.compute_hash())) is not None:
            self._tools[name] = kept
            return
        self._stale.discard(name)
        task = self._tasks.start(self._list(name), name=f"mcp tools {name}")
        self._listing[name] = task
        task.add_done_callback(lambda _: self._listing.pop(name, None))

    async def _list(self, name: str) -> None:
        server = self._servers[name]
        try:
            found = await server.list_tools(keeps_effects=self._keeps_effects())
        except AgentTuiError as problem:
            if name not in self._tools:
                self._set_problem(name, problem.message)
            return
        except Exception as problem:  # a foreign library ends here
            self._set_problem(name, f"{type(problem).__name__}: {str(problem)[:200]}")
            return
        self._problems.pop(name, None)
        self._changed[name] = self._changed.get(name, 0) + (self._tools.get(name, found) != found)
        self._tools[name] = found
        self._note_tools(server, found)

    def _note_tools(self, server: McpServer, found: tuple[ToolDefinition, ...]) -> None:
        """Keep what the tools are now, and tell the user which of them are others than when they were last told."""
        if self._host.state.is_private:
            return
        save_list(server.config.compute_hash(), server.version, found)
        try:
            changed = self._consent.note_tools(server.config.name, compute_digests(found))
        except StateError:
            return
        if changed:
            named = ", ".join(changed[:8]) + (" …" if len(changed) > 8 else "")
            text = f"The MCP server {server.config.name} describes tools otherwise than before: {named}."
            self._host.emit_outside_turn(Notice(level="warning", message=text))

    def _set_problem(self, name: str, text: str) -> None:
        self._problems[name] = text
        self._host.emit_outside_turn(Notice(level="warning", message=text))

    # what is called

    async def call(
        self, name: str, arguments: Mapping[str, Any], origin: Origin, on_progress: Progress
    ) -> tuple[OfferedTool, CallAnswer, str]:
        """Call a tool; return it with its answer and a line on what it changed. Raises `ToolFailed`."""
        tool = self.find(name)
        if tool is None:
            raise ToolFailed(f"There is no tool {name!r} any more.", hint="search_tools finds those that there are.")
        server = self._servers[tool.server]
        keeps = self._keeps_effects()
        answer, effects = await server.call(
            tool.definition.name, arguments, origin, keeps_effects=keeps, on_progress=on_progress
        )
        return tool, answer, effects

    def list_reports(self) -> tuple[ServerReport, ...]:
        """Return all configured servers as they are shown."""
        return tuple(self._report(each) for each in self._configured.servers)

    def _report(self, config: ServerConfig) -> ServerReport:
        server = self._servers.get(config.name)
        tools = name_tools(config.name, self._tools.get(config.name, ()))
        return ServerReport(
            name=config.name,
            source=config.source,
            state=server.status if server else "off",
            problem=self._problems.get(config.name, "") or (server.problem if server else ""),
            tools=tuple(tools),
            tokens=sum(len(each.describe()) for each in tools.values()) // 4,
            log=server.log.read() if server else "",
        )

    async def _forget(self, name: str) -> None:
        server = self._servers.pop(name)
        if (task := self._listing.get(name)) is not None:
            task.cancel()
        await server.close()
        for known in (self._tools, self._problems):
            known.pop(name, None)

    async def close(self) -> None:
        """End all servers; nothing of them is left."""
        await self._tasks.cancel(limit=2.0)
        await asyncio.gather(*(each.close() for each in self._servers.values()))
