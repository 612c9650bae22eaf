"""The MCP servers of a session: how they are opened, offered to the model, and passed to a call.

A server belongs to one session and ends with it. The access of a call ends with the call's lease.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from msgspec import Struct

from core.agent.base.call_lease import CallLease
from core.agent.base.prompt_tags import escape_tags
from core.agent.base.user_channel import UserChannel
from core.agent.context.offers import Offer
from core.engine.shared.project_trust import ProjectTrust
from core.errors import ToolFailed, ToolInputInvalid
from core.ids import new_id
from core.mcp.package_servers import find_missing
from core.mcp.server import CallListener
from core.mcp.server_config import ServerConfig, parse_entries
from core.mcp.session_servers import SessionServers
from core.mcp.tool_lists import MAX_SHOWN, OfferedTool, read_resource, simplify_schema
from core.mcp.wire.results import MAX_REQUESTED_CHARS, WARN_CHARS, render_answer
from core.modes import Access
from core.permissions.trusted_files import TrustCheck
from core.protocol.documents import Option, Question, QuestionAnswer
from core.protocol.events import Notice, QuestionAsked, ToolOutput
from core.protocol.messages import FoundTool
from core.protocol.review import Origin
from core.protocol.tools import ToolRow
from core.records import parse_json
from core.sandbox.plain_text import strip_escapes
from core.shell.command_host import CommandHost
from core.shell.terminal import Terminal
from core.text.display_names import expose_controls
from core.tools.base import ToolOutcome, ToolType
from core.tools.external import build_external_tool
from core.tools.toolset import Toolset

OFFER_TAG = "available_servers"
CHARS_PER_TOKEN = 4
BOXED = "Sandboxed, no network. File changes go to review."
_YES = frozenset({"yes", "y"})  # the option, or the user's text
_NO = frozenset({"no", "n", "never"})
REMOTE = "It is reached over the network and can't be sandboxed, so you are asked before each call."


class ServerCaller(Struct, eq=False):
    """EXTERNAL: one call of a server's tool."""

    _servers: SessionServers
    _host: CommandHost
    _origin: Origin
    _lease: CallLease
    _user: UserChannel
    max_chars: int = MAX_REQUESTED_CHARS  # of an answer

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolOutcome:
        self._lease.check()
        listener = CallListener(self._report_progress, self._ask, self._warn)
        tool, answer, effects = await self._servers.call(name, arguments, self._origin, listener)
        wishes = tool.definition.meta
        rendering = await render_answer(
            answer, self._host.directory, self._origin.call, wishes, max_chars=self.max_chars
        )
        if WARN_CHARS < rendering.length <= self.max_chars:
            message = f"{name} returned {rendering.length:,} characters, about {rendering.length // 4:,} tokens."
            self._host.emit(Notice(level="warning", message=message))
        text = "\n".join(filter(None, (rendering.text, f"[{effects}]" if effects else "")))
        return ToolOutcome(
            content=text,
            summary=effects or f"{rendering.length:,} characters",
            failed=answer.is_error is True,
            spilled=rendering.spilled,
            attachments=rendering.attachments,
        )

    async def read_resource(self, server: str, uri: str) -> ToolOutcome:
        self._lease.check()
        config = await self._servers.find_config(server)
        if config is None:
            raise ToolFailed(f"The MCP server {server!r} no longer exists.")
        answer = await self._servers.ask(config, partial(read_resource, uri=uri))
        rendering = await render_answer(answer, self._host.directory, new_id("call"))
        return ToolOutcome(content=rendering.text, spilled=rendering.spilled, attachments=rendering.attachments)

    async def find_host(self, server: str) -> str:
        self._lease.check()
        return await self._servers.find_host(server)

    async def _ask(self, title: str, questions: tuple[Question, ...]) -> tuple[QuestionAnswer, ...] | None:
        if self._lease.is_over or not self._user.is_interactive:
            return None
        question = QuestionAsked(id=new_id("ask"), call=self._origin.call, questions=questions, title=title)
        reply = await self._user.ask(question)
        return reply.answers if reply.by == "user" else None

    def _warn(self, text: str) -> None:
        self._host.emit(Notice(level="warning", message=text))

    async def find_tools(self, query: str) -> tuple[FoundTool, ...]:
        self._lease.check()
        return tuple(_define_tool(tool) for tool in await self._servers.search(query))

    def _report_progress(self, progress: float, total: float | None, message: str | None) -> None:
        if self._lease.is_over:
            return
        part = f"{progress:g}/{total:g}" if total else f"{progress:g}"
        text = expose_controls(f"{part} {(message or '')[:200]}".strip())
        self._host.emit(ToolOutput(call=self._origin.call, text=f"{text}\n"))


class ServerAccess:
    """The servers of a session, which are started at first use. Registers itself as the source of external `tools`."""

    def __init__(self, terminal: Terminal, user: UserChannel, tools: Toolset, trust: ProjectTrust) -> None:
        self._host, self._user, self._trust = terminal.host, user, trust
        self.servers = SessionServers(terminal.host, self._ask, self._get_check, terminal.keeps_effects)
        tools.find_external, tools.wait_for_external = self._find, self.servers.wait_for_start
        terminal.on_close.append(self.servers.close)

    def set_client_servers(self, entries: Mapping[str, Any], source: str) -> tuple[str, ...]:
        """Replace the servers that the client of the session provides. `entries`: by name, as in a configuration file.
        They run like the user's own servers. Return an explanation for every invalid entry."""
        self.servers.client_servers, problems = parse_entries(entries, source, is_project=False)
        return tuple(f"{problem.name}: {problem.reason}" for problem in problems)

    def list_rows(self, offer_text: str) -> list[ToolRow]:
        """List the tools of running servers. `offer_text`: the tools that were announced to the model in messages."""
        return [_describe_tool(tool, is_announced=tool.name in offer_text) for tool in self.servers.list_tools()]

    def _get_check(self) -> TrustCheck | None:
        return self._trust.is_readable if self._trust.trusted else None

    def _find(self, name: str) -> ToolType | None:
        if name[:5] == "mcp__" and (reason := self.servers.explain_off(name)):
            raise ToolInputInvalid(f"Not run: {reason}", hint="Nothing was changed. Do without it.", code="tool_off")
        tool = self.servers.find(name)
        if tool is None:
            if name[:5] == "mcp__" and (reason := self.servers.explain_missing(name)) is not None:
                raise ToolInputInvalid(f"Not run: {reason}", hint="Nothing was changed.", code="tool_off")
            return None
        reads, asks = tool.definition.is_reading, tool.must_ask
        target = f"{tool.server}:{tool.definition.name}"
        host = self.servers.get_host(tool.server)
        is_own = self.servers.own is not None
        return build_external_tool(tool.name, target, reads=reads, asks=asks, remote_host=host, is_internal=is_own)

    def open_caller(self, origin: Origin, lease: CallLease) -> ServerCaller:
        """Open the access that one call of a server's tool has."""
        return ServerCaller(self.servers, self._host, origin, lease, self._user)

    def build_offer(self, window: int) -> Offer:
        """Build the offer of the servers' tools. `window`: the model's context window in tokens."""

        async def describe() -> str:
            return escape_tags(await self.servers.describe(window))

        return Offer(OFFER_TAG, describe)

    async def _ask(self, config: ServerConfig, description: str) -> bool | None:
        """Ask whether a server of the project's configuration may run, and whether the package of any server may be
        fetched; None = there was no answer."""
        variables = ", ".join(config.list_variables())
        variables_note = f"\nIt receives your variables {variables}." if variables else ""
        package = find_missing(config.command, self._host.workspace.root)
        fetch_note = f"\n{package.describe()}" if package is not None else ""
        source = f"{config.source} of this project" if config.is_project else config.source
        question = Question(
            id="server",
            text=f"{source} defines the MCP server {config.name!r}:\n\n"
            f"{description}\n{variables_note}\n{REMOTE if config.is_remote else BOXED}{fetch_note}",
            options=(Option(id="yes", label="Allow in this project"), Option(id="no", label="Never")),
        )
        reply = await self._user.ask(QuestionAsked(id=new_id("ask"), call="", questions=(question,)))
        if not reply.answers:
            return None
        words = (*reply.answers[0].options, reply.answers[0].text.strip().casefold())
        return True if _YES.intersection(words) else False if _NO.intersection(words) else None


def _define_tool(tool: OfferedTool) -> FoundTool:
    """Return a tool as the model may load it. All of it is foreign text."""
    description = strip_escapes(tool.definition.description or "").strip()
    schema = json.dumps(simplify_schema(tool.definition.input_schema), ensure_ascii=False)
    return FoundTool(
        name=tool.name,
        description=escape_tags(description if len(description) <= MAX_SHOWN else f"{description[:MAX_SHOWN]} […]"),
        parameters=parse_json(escape_tags(strip_escapes(schema))),
    )


def _describe_tool(tool: OfferedTool, *, is_announced: bool) -> ToolRow:
    reason = f"of the MCP server {tool.server}"
    return ToolRow(
        name=tool.name,
        access=Access.EXTERNAL.value,
        state="told" if is_announced else "callable",
        reason=reason if is_announced else f"{reason}, found by search_tools",
        server=tool.server,
        tokens=len(tool.describe()) // CHARS_PER_TOKEN if is_announced else 0,
    )
