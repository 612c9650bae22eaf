"""The MCP servers of a session: how they are opened, offered to the model, and handed to a call.

A server belongs to one session and ends with it. What a call gets is as narrow as its lease: it dies with the call.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from core.agent.context.prompt_tags import escape_tags
from core.agent.gate.gated_call import CallLease
from core.agent.turn.offers import Offer
from core.agent.turn.user_channel import UserChannel
from core.engine.project_trust import ProjectTrust
from core.ids import new_id
from core.mcp.results import WARN_CHARS, render_answer
from core.mcp.server_config import ServerConfig
from core.mcp.session_servers import SessionServers
from core.permissions.trusted_files import TrustCheck
from core.protocol.documents import Option, Question
from core.protocol.events import Notice, QuestionAsked, ToolOutput
from core.protocol.review import Origin
from core.sandbox.plain_text import strip_escapes
from core.shell.command_host import CommandHost
from core.shell.terminal import Terminal
from core.tools.base import ToolOutcome, ToolType
from core.tools.external import build_external_tool
from core.tools.toolset import Toolset

OFFER_TAG = "available_servers"


class ServerCaller(Struct, eq=False):
    """EXTERNAL: one call of a server's tool."""

    _servers: SessionServers
    _host: CommandHost
    _origin: Origin
    _lease: CallLease

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolOutcome:
        self._lease.check()
        tool, answer, effects = await self._servers.call(name, arguments, self._origin, self._report_progress)
        rendered = await render_answer(answer, self._host.directory, self._origin.call, tool.definition.meta)
        if rendered.length > WARN_CHARS:
            said = f"{name} answered with {rendered.length:,} characters, about {rendered.length // 4:,} tokens."
            self._host.emit(Notice(level="warning", message=said))
        text = "\n".join(filter(None, (rendered.text, f"[{effects}]" if effects else "")))
        return ToolOutcome(
            content=text,
            summary=effects or f"{rendered.length:,} characters",
            failed=answer.is_error is True,
            spilled=rendered.spilled,
            attachments=rendered.attachments,
        )

    def describe_tools(self, query: str) -> str:
        self._lease.check()
        return escape_tags("\n".join(each.describe(20_000) for each in self._servers.search(query)))

    def _report_progress(self, progress: float, total: float | None, message: str | None) -> None:
        if self._lease.is_over:
            return
        part = f"{progress:g}/{total:g}" if total else f"{progress:g}"
        text = strip_escapes(f"{part} {(message or '')[:200]}".strip())
        self._host.emit(ToolOutput(call=self._origin.call, text=f"{text}\n"))


class ServerAccess:
    """The servers of a session; none is started before it is wanted. Their tools are found by `tools` from now on."""

    def __init__(self, terminal: Terminal, user: UserChannel, tools: Toolset, trust: ProjectTrust) -> None:
        self._host, self._user, self._trust = terminal.host, user, trust
        self.servers = SessionServers(terminal.host, self._ask, self._get_check, terminal.keeps_effects)
        tools.find_external = self._find
        terminal.on_close.append(self.servers.close)

    def _get_check(self) -> TrustCheck | None:
        return self._trust.is_readable if self._trust.trusted else None

    def _find(self, name: str) -> ToolType | None:
        found = self.servers.find(name)
        if found is None:
            return None
        reads, asks = found.definition.is_reading, found.must_ask
        target = f"{found.server}:{found.definition.name}"
        return build_external_tool(found.name, target, reads=reads, asks=asks, contained=True)

    def open_caller(self, origin: Origin, lease: CallLease) -> ServerCaller:
        """Open what one call of a server's tool may do."""
        return ServerCaller(self.servers, self._host, origin, lease)

    def build_offer(self, window: int) -> Offer:
        """Build the offer of the tools that the servers have. `window`: that of the model, in tokens."""

        async def describe() -> str:
            return escape_tags(await self.servers.describe(window))

        return Offer(OFFER_TAG, describe)

    async def _ask(self, config: ServerConfig, shown: str) -> bool | None:
        """Ask whether a server that the project names may run; None = there was no answer."""
        variables = ", ".join(config.list_variables())
        given = f"\nIt is given your variables {variables}." if variables else ""
        question = Question(
            id="server",
            text=f"{config.source} of this project names the MCP server {config.name!r}:\n\n{shown}\n{given}\n"
            "It runs in the box: what it writes waits for your review, and it has no network.",
            options=(Option(id="yes", label="Let it run in this project"), Option(id="no", label="Never")),
        )
        answered = await self._user.ask(QuestionAsked(id=new_id("ask"), call="", questions=(question,)))
        chosen = answered.answers[0].options if answered.answers else ()
        return True if "yes" in chosen else False if "no" in chosen else None
