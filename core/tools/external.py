"""EXTERNAL: tools of MCP servers. The class of such a tool is generated from the server's description.

A server's statements never widen rights: that a tool only reads is a hint, and in the modes where it matters (Plan and
Ask) its writes are discarded.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, ClassVar, Final, Protocol

from msgspec import Meta, field

from core.modes import Access
from core.protocol.messages import FoundTool
from core.text.counting import count
from core.tools.base import Tool, ToolOutcome, ToolType

_SHOWN = 2_000  # The limit for arguments in a question, in characters.
_REFUSED_AT_THE_TOP: Final = frozenset({"anyOf", "oneOf", "allOf", "enum", "not"})


class ExternalCaller(Protocol):
    """The capability of a call to a server."""

    async def call(self, name: str, arguments: dict[str, Any], /) -> ToolOutcome:
        """Call a tool by its full name. Raises `ToolFailed`."""

    async def read_resource(self, server: str, uri: str, /) -> ToolOutcome:
        """Read a resource. Raises `StateError`, `ToolFailed`."""

    async def find_host(self, server: str, /) -> str:
        """Return the host of a remote server, "" = it is local."""

    async def find_tools(self, query: str, /) -> tuple[FoundTool, ...]:
        """Return the tools that match a query, the best first."""


class ExternalTool(Tool[ExternalCaller], frozen=True, kw_only=True):
    """A tool of a server. `target`: `server:tool`, as rules name it; `is_reading`: its server declares that it changes
    nothing; `must_ask`: the user is asked about every call; `host`: the host of a remote server, which runs outside any
    box. `is_own`: the server is the program's own, and records foreign text itself."""

    access: ClassVar[Access] = Access.EXTERNAL
    target: ClassVar[str] = ""
    is_reading: ClassVar[bool] = False
    must_ask: ClassVar[bool] = False
    host: ClassVar[str] = ""
    is_own: ClassVar[bool] = False

    arguments: dict[str, Any] = field(default_factory=dict)

    @property
    def explanation(self) -> str:
        """Return the arguments, for the approval question."""
        text = json.dumps(self.arguments, ensure_ascii=False, indent=1)
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} […]"

    @property
    def source(self) -> str:
        """The source of its results: the host of a remote server, or the server; "" = the program's own."""
        if self.is_own:
            return ""
        return self.host or f"the MCP server {self.target.partition(':')[0]}"

    def subject(self) -> str:
        return self.target

    async def run(self, capability: ExternalCaller) -> ToolOutcome:
        return await capability.call(self.name, self.arguments)


def build_external_tool(
    full_name: str, subject: str, *, reads: bool, asks: bool, remote_host: str = "", is_internal: bool = False
) -> ToolType:
    """Build the class of a server's tool. `remote_host`: the host of a remote server; `is_internal`: the server is the
    program's own."""

    class ServerTool(ExternalTool, frozen=True, kw_only=True):
        name: ClassVar[str] = full_name
        target: ClassVar[str] = subject
        is_reading: ClassVar[bool] = reads
        must_ask: ClassVar[bool] = asks
        host: ClassVar[str] = remote_host
        is_own: ClassVar[bool] = is_internal

    return ServerTool


class SearchTools(Tool[ExternalCaller], frozen=True, kw_only=True):
    name: ClassVar[str] = "search_tools"
    access: ClassVar[Access] = Access.EXTERNAL
    ignored_arguments: ClassVar = frozenset(("max_results", "limit"))
    ignores_unknown: ClassVar = True
    finds_tools: ClassVar[bool] = True

    query: Annotated[str, Meta(min_length=1, max_length=500, description="What the tool should do, or its name.")]

    def subject(self) -> str:
        return self.query

    async def run(self, capability: ExternalCaller) -> ToolOutcome:
        tools = await capability.find_tools(self.query)
        if not tools:
            return ToolOutcome(content="No tool of a server matches. Try other words.", summary="none")
        rows = [f"- {tool.name}: {tool.description}\n  arguments: {_format_schema(tool.parameters)}" for tool in tools]
        loadable_tools = tools if all(_is_loadable(tool.parameters) for tool in tools) else ()
        return ToolOutcome(content="\n".join(rows), summary=count("tool", len(tools)), tools=loadable_tools)


def _is_loadable(schema: dict[str, Any]) -> bool:
    """Return True if APIs accept a schema as that of a tool. One that they refuse would spoil every later request."""
    return schema.get("type") == "object" and not schema.keys() & _REFUSED_AT_THE_TOP


def _format_schema(schema: dict[str, Any]) -> str:
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
