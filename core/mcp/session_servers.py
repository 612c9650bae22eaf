"""The MCP servers of one session: the configured ones, the user's consents, and their tools.

The tools of a server are listed once, and again after the server reported a change, before the next request to the
model. If a list can't be read, the old one stays. A server that can't be started is reported once, in the offer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

from core.clock import monotonic
from core.errors import AgentTuiError, StateError, ToolFailed
from core.filesystem.removal import remove_tree
from core.mcp.config_files import ConfiguredServers, is_foreign, load_servers
from core.mcp.consent import NO_CONSENT, ConsentStore, ServerConsent
from core.mcp.package_servers import ANY_HOST, OpenGrants, find_missing, parse_package, prepare_command
from core.mcp.server import START_SECONDS, CallListener, McpServer
from core.mcp.server_config import ServerConfig
from core.mcp.server_rows import ServerRuntime, build_row, describe_problem, describe_unavailable
from core.mcp.tool_lists import (
    CachedLists,
    OfferedTool,
    ServerTexts,
    compute_digests,
    describe_changes,
    describe_suspicious_tools,
    describe_tools,
    find_tools,
    format_offer,
    format_tool_name,
    list_texts,
    load_list,
    name_tools,
    save_list,
)
from core.mcp.wire.sdk_connection import CallAnswer, SdkConnection, ToolDefinition
from core.permissions.trusted_files import TrustCheck
from core.protocol import queries as q
from core.protocol.events import Notice
from core.protocol.review import Origin
from core.sessions.private_directory import find_private_directory
from core.shell.command_host import CommandHost
from core.shell.network_grants import NetworkGrants
from core.tasks import TaskOwner, cancel_tasks

FIRST_WAIT: Final = 2.0  # seconds that a prompt waits for a list, counted from its request
DEFERRED_PART: Final = 0.05  # share of the window above which the model has to search for tools
UNKNOWN_WINDOW: Final = 32_000
MAX_CHANGES: Final = 10  # changes of a server's tools that reach the model per session
STILL_STARTING: Final = "- {} is still starting: its tools are listed when it is ready, and search_tools waits for it."
OFF: Final = "the user has turned it off."
A = TypeVar("A")
ConsentQuestion = Callable[[ServerConfig, str], Awaitable["bool | None"]]


class SessionServers:
    """The servers of a session. `ask` asks the user about a server of the project; None: no answer.

    `get_check`: the current trust in the project's files; `keeps_effects`: writes of servers go to the review. `own`:
    the only server of the session, if set; `client_servers`: servers that the client supplied; `is_available`: whether
    the session has a tool at all.
    """

    def __init__(
        self,
        host: CommandHost,
        ask: ConsentQuestion,
        get_check: Callable[[], TrustCheck | None],
        keeps_effects: Callable[[], bool],
    ) -> None:
        self._host, self._ask, self._get_check, self._keeps_effects = host, ask, get_check, keeps_effects
        self._is_private = find_private_directory(host.directory) is not None
        self._consent = ConsentStore(host.workspace.root, is_persistent=not self._is_private)
        self._configured = ConfiguredServers()
        self._servers: dict[str, McpServer] = {}
        self._tools: dict[str, tuple[ToolDefinition, ...]] = {}
        self._texts: dict[str, ServerTexts] = {}
        self._problems: dict[str, str] = {}
        self._refusals: dict[str, str] = {}
        self._consents: dict[str, ServerConsent] = {}
        self._change_counts: dict[str, int] = {}
        self._stale: set[str] = set()
        self._answered, self._reported_problems = set[str](), set[str]()
        self._refreshing = asyncio.Lock()
        self._tasks = TaskOwner()
        self._listing: dict[str, asyncio.Task[None]] = {}
        self._listing_since: dict[str, float] = {}
        self._fetching: set[str] = set()  # their packages take longer than any prompt waits
        self.own: ServerConfig | None = None
        self.client_servers: tuple[ServerConfig, ...] = ()
        self.is_available: Callable[[str], bool] = lambda _: True
        self.open_grants: OpenGrants = lambda directory: NetworkGrants(directory, lambda: (ANY_HOST,))

    async def describe(self, window: int) -> str:
        """Return the offer for the model, "" without servers. `window`: the model's context, in tokens."""
        await self.refresh()
        notes = describe_unavailable({**self._problems, **self._refusals}, self._consents, self._tools)
        notes += [STILL_STARTING.format(name) for name in sorted(self._listing.keys() - self._tools.keys())]
        return format_offer(self.list_tools(), notes, int((window or UNKNOWN_WINDOW) * DEFERRED_PART))

    def list_tools(self) -> list[OfferedTool]:
        """Return the callable tools."""
        return [
            offered_tool
            for offered_tool in self._list_all()
            if self.is_available(offered_tool.name) and not self.explain_off(offered_tool.name)
        ]

    def _list_all(self) -> list[OfferedTool]:
        offered_tools: dict[str, OfferedTool] = {}
        for name in sorted(self._tools, key=lambda name: (self._servers[name].config.is_project, name)):
            # A server can't shadow a tool of another one.
            offered_tools |= name_tools(name, self._tools[name], offered_tools)
        return [*offered_tools.values()]

    def explain_off(self, name: str) -> str | None:
        """Return why the tool of that name may not be called; None: it may, or is unknown."""
        tool = self.find(name)
        for server, reason in self._refusals.items():
            if tool.server == server if tool else name.startswith(format_tool_name(server, "")):
                return f"the MCP server {server} can't be used: {reason}"
        consent = self._consents.get(tool.server) if tool else None
        off_reason = consent.explain_off(tool.definition.name) if consent and tool else None
        return f"{name} can't be used: {off_reason}" if off_reason is not None else None

    def explain_missing(self, name: str) -> str | None:
        """Return why an unknown tool may still belong to a server; None: there is no such server."""
        for server in (*self._listing, *self._problems):
            if server not in self._tools and name.startswith(format_tool_name(server, "")):
                if server in self._listing:
                    doing = "its package is being fetched" if server in self._fetching else "it is still starting"
                    return f"the MCP server {server} has no tools yet: {doing}. Go on without it, and try again later."
                return self._problems[server]
        return None

    def find(self, name: str) -> OfferedTool | None:
        """Return the tool of that name, callable or not; None: there is none."""
        return (
            next((offered_tool for offered_tool in self._list_all() if offered_tool.name == name), None)
            if name[:5] == "mcp__"
            else None
        )

    def get_host(self, server: str) -> str:
        """Return the host of a remote server; "" for a local one."""
        return self._servers[server].host if server in self._servers else ""

    async def search(self, query: str) -> list[OfferedTool]:
        """Return the tools that match a query, best first; waits for servers that are starting."""
        if not (tools := find_tools(query, self.list_tools())):
            await self.wait_for_start()
            tools = find_tools(query, self.list_tools())
        return tools

    async def wait_for_start(self, name: str = "") -> None:
        """Wait until starting servers have listed their tools; with a tool's name, for the server that may have it."""
        starting = {
            task
            for server, task in self._listing.items()
            if server not in self._tools and (not name or name.startswith(format_tool_name(server, "")))
        }
        if starting:
            await asyncio.wait(starting, timeout=START_SECONDS)

    async def refresh(self) -> None:
        """Reload the configuration, ask about new servers of the project, and start the pending lists."""
        async with self._refreshing:
            self._configured = await self._load()
            self._report_problems()
            refusals = {server.name: await self._find_refusal(server) for server in self._configured.servers}
            allowed_configs = {server.name: server for server in self._configured.servers if not refusals[server.name]}
            for name in [*self._servers]:
                if allowed_configs.get(name) != self._servers[name].config:
                    await self._remove_server(name)
            self._refusals = {name: refusal for name, refusal in refusals.items() if refusal}
            for config in allowed_configs.values():
                self._list_if_needed(config)
            await self._wait_for_lists()

    async def start_listing(self) -> None:
        """Start listing unknown servers while the user still types, without asking anything."""
        async with self._refreshing:
            for config in (await self._load()).servers:
                with suppress(StateError):  # the first prompt reports the same fault
                    if not self.explain_refusal(config):
                        self._list_if_needed(config)

    async def _wait_for_lists(self) -> None:
        """Wait briefly for recently started lists: a slow server is offered later. The session's own server gets the
        full start limit."""
        time_limit = FIRST_WAIT if self.own is None else START_SECONDS
        remaining_seconds = {
            name: self._listing_since[name] + time_limit - monotonic()
            for name in self._listing
            if name not in self._fetching
        }
        if waiting := {self._listing[name] for name, seconds in remaining_seconds.items() if seconds > 0}:
            await asyncio.wait(waiting, timeout=max(remaining_seconds.values()))

    def _report_problems(self) -> None:
        own_problems = (problem for problem in self._configured.problems if not is_foreign(problem.source))
        for text in map(describe_problem, own_problems):  # `agent-tui import` names the others
            self._warn(text if text not in self._reported_problems else "")
            self._reported_problems.add(text)

    async def _find_refusal(self, config: ServerConfig) -> str | None:
        """Return why the server may not run; None: it may. The user is asked once per entry and session."""
        try:
            consent, answer = self._consent.find(config.name), self._consent.get_answer(config)
            self._consents[config.name] = consent
            if consent.is_off:
                return OFF
            if answer is None and config.compute_hash() not in self._answered:
                self._answered.add(config.compute_hash())
                answer = await self._ask(config, self._consent.describe_change(config))
                if answer is not None:
                    self._consent.save(config, is_allowed=answer)
        except StateError as problem:
            return problem.message
        return None if answer else self._consent.explain_refusal(config)

    def _ensure_server(self, config: ServerConfig) -> McpServer:
        if config.name not in self._servers:
            self._servers[config.name] = McpServer(
                config, self._host, partial(self.mark_stale, config.name), self.open_grants
            )
        return self._servers[config.name]

    def mark_stale(self, name: str) -> None:
        """Record that a server's tools changed."""
        self._stale.add(name)

    async def _replace_outdated(self, config: ServerConfig) -> McpServer:
        """Return the server of exactly this entry."""
        if self._ensure_server(config).config != config:
            await self._remove_server(config.name)
        return self._ensure_server(config)

    def _list_if_needed(self, config: ServerConfig) -> None:
        name = self._ensure_server(config).config.name
        if name in self._listing:
            return
        is_stale = name in self._stale and self._change_counts.get(name, 0) < MAX_CHANGES
        is_stale = is_stale or (name not in self._tools and self._servers[name].is_retry_due)
        if (name in self._tools or name in self._problems) and not is_stale:
            return
        if (
            name not in self._tools
            and (server_lists := load_list(self._servers[name].config.compute_hash())) is not None
        ):
            self._tools[name], self._texts[name] = server_lists.tools, server_lists.texts
            return
        _ = self._start_listing(name)

    def _start_listing(self, name: str) -> asyncio.Task[None]:
        self._stale.discard(name)
        package = find_missing(self._servers[name].config.command, self._host.workspace.root)
        if package is not None:
            self._fetching.add(name)
            message = f"Fetching the {package.registry} package {package.spec} for the MCP server {name}."
            self._host.emit_outside_turn(Notice(level="info", message=message))
        task = self._tasks.start(self._list(name), name=f"mcp tools {name}")
        self._listing[name], self._listing_since[name] = task, monotonic()
        task.add_done_callback(partial(self._remove_listing, name))
        return task

    def _remove_listing(self, name: str, task: asyncio.Task[None]) -> None:
        if self._listing.get(name) is task:
            del self._listing[name]
            self._fetching.discard(name)

    async def _list(self, name: str) -> None:
        server, keeps_effects = self._servers[name], self._keeps_effects()
        try:
            tools = await server.list_tools(keeps_effects=keeps_effects)
            self._record_tools(server, tools)
            with suppress(ToolFailed):  # its tools are usable without its texts
                self._texts[name] = await server.ask(list_texts, keeps_effects=keeps_effects)
                self._store_lists(server)
        except AgentTuiError as problem:
            if name not in self._tools:
                self._set_problem(name, problem.format_with_hint())
        except Exception as problem:  # any exception of a foreign library
            self._set_problem(name, f"{type(problem).__name__}: {str(problem)[:200]}")

    def _record_tools(self, server: McpServer, tools: tuple[ToolDefinition, ...]) -> None:
        """Offer the tools, and warn the user about changed descriptions; those tools are held."""
        config = server.config
        server_lists = load_list(config.compute_hash())
        before = describe_tools(config.name, server_lists.tools) if server_lists is not None else {}
        with suppress(StateError):  # the next consent question reports it
            changed_names, held_names = self._consent.record_tools(config, compute_digests(tools), before)
            self._consents[config.name] = self._consent.find(config.name)
            self._warn(describe_changes(config.name, changed_names, held_names))
        self._warn(
            describe_suspicious_tools(config.name, tools) if server_lists is None or server_lists.tools != tools else ""
        )
        self._problems.pop(config.name, None)
        self._change_counts[config.name] = self._change_counts.get(config.name, 0) + (
            self._tools.get(config.name, tools) != tools
        )
        self._tools[config.name] = tools
        self._store_lists(server)

    def _store_lists(self, server: McpServer) -> None:
        if not self._is_private:
            texts = self._texts.get(server.config.name, ServerTexts())
            save_list(server.config.compute_hash(), CachedLists(server.version, self._tools[server.config.name], texts))

    def _warn(self, text: str) -> None:
        if text:
            self._host.emit_outside_turn(Notice(level="warning", message=text))

    def _set_problem(self, name: str, text: str) -> None:
        self._warn(text if self._problems.get(name) != text else "")
        self._problems[name] = text

    async def call(
        self, name: str, arguments: Mapping[str, Any], origin: Origin, listener: CallListener
    ) -> tuple[OfferedTool, CallAnswer, str]:
        """Call a tool; return it with its answer and a line about changed files. Raises `ToolFailed`."""
        if reason := self.explain_off(name):
            raise ToolFailed(f"Not run: {reason}", hint="Do without it.")
        tool = self.find(name)
        if tool is None:
            raise ToolFailed(f"There is no tool {name!r} any more.", hint="search_tools finds the available ones.")
        server = self._servers[tool.server]
        keeps_effects = self._keeps_effects()
        answer, effects = await server.call(
            tool.definition.name, arguments, origin, keeps_effects=keeps_effects, listener=listener
        )
        return tool, answer, effects

    async def load_rows(self) -> q.ServersAnswer:
        """Return all servers as configured now, without starting any or asking anything."""
        configuration = await self._load()
        problems = tuple(map(describe_problem, configuration.problems))
        rows = await asyncio.to_thread(lambda: tuple(map(self._build_row, configuration.servers)))
        return q.ServersAnswer(servers=rows, problems=problems, is_trusted=self._get_check() is not None)

    def _build_row(self, config: ServerConfig) -> q.ServerRow:
        name, server = config.name, self._servers.get(config.name)
        life = ServerRuntime(
            status="starting" if name in self._listing else server.status if server else "idle",
            problem=self._problems.get(name, "") or (server.problem if server else ""),
            log=server.log.read() if server else "",
        )
        server_lists = CachedLists("", self._tools[name]) if name in self._tools else load_list(config.compute_hash())
        return build_row(config, self._consent, life, server_lists.tools if server_lists else ())

    async def load_configs(self) -> tuple[ServerConfig, ...]:
        """Load the entries of all servers from their files."""
        return (await self._load()).servers

    def explain_refusal(self, config: ServerConfig) -> str | None:
        """Return why a server may not run; None: it may, without asking. Raises `StateError`."""
        if self._consent.find(config.name).is_off:
            return OFF
        return None if self._consent.get_answer(config) else self._consent.explain_refusal(config)

    def find_texts(self, config: ServerConfig) -> ServerTexts | None:
        """Return the known resources and prompts of a server; None: they were not listed yet."""
        if (texts := self._texts.get(config.name)) is not None and config.name in self._servers:
            return texts
        server_lists = load_list(config.compute_hash())
        return server_lists.texts if server_lists is not None else None

    async def ask(self, config: ServerConfig, work: Callable[[SdkConnection], Awaitable[A]]) -> A:
        """Return the result of `work` on a server, which is started for that. Raises `StateError`, `ToolFailed`."""
        if reason := self.explain_refusal(config):
            raise ToolFailed(f"The MCP server {config.name} can't be used: {reason}", hint="/mcp shows it.")
        server = await self._replace_outdated(config)
        return await server.ask(work, keeps_effects=self._keeps_effects())

    async def find_host(self, name: str) -> str:
        """Return the host of a remote server by its entry; "" for a local or unknown one."""
        config = await self.find_config(name)
        return (await self._replace_outdated(config)).host if config is not None else ""

    async def find_config(self, name: str) -> ServerConfig | None:
        """Return the entry of a server as it is in its file now; None: there is none."""
        return next((config for config in await self.load_configs() if config.name == name), None)

    async def _load(self) -> ConfiguredServers:
        if self.own is not None:
            return ConfiguredServers((self.own,))
        return await asyncio.to_thread(load_servers, self._host.workspace, self._get_check(), self.client_servers)

    async def switch(self, name: str, *, tool: str = "", is_off: bool) -> None:
        """Switch a server, or one of its tools, on or off. Raises `StateError`."""
        self._consent.switch(name, tool=tool, is_off=is_off)
        self._consents[name] = self._consent.find(name)
        if not tool and is_off:
            self._refusals[name] = OFF
            await self.stop(name)

    async def answer_consent(self, config: ServerConfig, *, is_allowed: bool) -> None:
        """Store or revoke the user's consent to an entry of the project. Raises `StateError`."""
        if is_allowed:
            self._consent.save(config, is_allowed=True)
            return
        self._consent.forget(config.name)
        self._answered.add(config.compute_hash())  # a revoked consent is not asked for again in this session
        self._refusals[config.name] = NO_CONSENT
        await self.stop(config.name)

    async def stop(self, name: str) -> None:
        """Stop a running server; its next call starts it again."""
        if (task := self._listing.get(name)) is not None:
            await cancel_tasks({task})
        if (server := self._servers.get(name)) is not None:
            await server.stop()

    async def restart(self, config: ServerConfig) -> None:
        """Stop a server and list its tools again, waiting briefly. Raises `StateError`, `ToolFailed`."""
        if reason := self.explain_refusal(config):
            raise ToolFailed(f"the MCP server {config.name} is not allowed to run: {reason}")
        await self.stop(config.name)
        await self._replace_outdated(config)
        self._problems.pop(config.name, None)
        self._refusals.pop(config.name, None)
        await asyncio.wait({self._start_listing(config.name)}, timeout=FIRST_WAIT)

    async def probe(self, config: ServerConfig) -> tuple[ToolDefinition, ...]:
        """Start a server for its list of tools and stop it, dropping its writes. Raises `StateError`, `ToolFailed`."""
        if not self._consent.get_answer(config):
            raise ToolFailed(
                f"{config.name} is defined in {config.source}, and {self._consent.explain_refusal(config)}",
                hint="/mcp on the screen asks you.",
            )
        server = McpServer(config, self._host, lambda: None, self.open_grants)
        try:
            return await server.list_tools(keeps_effects=False)
        finally:
            await server.close()

    async def fetch(self, config: ServerConfig) -> None:
        """Fetch the package of a server anew, after the user's yes. Raises `ConfigError`, `ToolFailed`."""
        package = parse_package(config.command, self._host.workspace.root)
        if package is None:
            raise ToolFailed(f"{config.name} downloads nothing.", hint=f"agent-tui mcp test {config.name} starts it.")
        await asyncio.to_thread(remove_tree, package.folder)
        await prepare_command(config.command, self._host, self.open_grants)

    async def _remove_server(self, name: str) -> None:
        server = self._servers.pop(name)
        if (task := self._listing.pop(name, None)) is not None:
            await cancel_tasks({task})
        await server.close()
        for table in (self._tools, self._texts, self._problems):
            table.pop(name, None)

    async def close(self) -> None:
        """Stop all servers."""
        await self._tasks.cancel(limit=2.0)
        await asyncio.gather(*(server.close() for server in self._servers.values()))
