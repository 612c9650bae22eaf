"""The MCP server over standard input and output, by the SDK. Only the protocol goes to standard output."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from core import __version__
from core.errors import AgentTuiError, ToolInputInvalid
from core.transports.mcp.offered_tools import TOOLS
from core.transports.mcp.outside_agent import OutsideAgent

if TYPE_CHECKING:
    from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult

NAME: Final = "agent-tui"
INSTRUCTIONS: Final = (
    "agent-tui keeps proposals in a shadow of the project: propose_edit changes no file; the user "
    "reviews its hunks. review_state lists the verdicts."
)


def serve(directory: Path) -> None:
    """Serve a project until standard input ends."""
    asyncio.run(_serve(OutsideAgent(directory)))


async def _serve(agent: OutsideAgent) -> None:
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server

    async def list_tools(_context: Any, _params: Any) -> ListToolsResult:
        return _build_list()

    async def call_tool(context: Any, params: CallToolRequestParams) -> CallToolResult:
        agent.client = _name_client(context)
        return await _answer(agent, params.name, params.arguments or {})

    server = Server(
        NAME, version=__version__, instructions=INSTRUCTIONS, on_list_tools=list_tools, on_call_tool=call_tool
    )
    try:
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())
    finally:
        await agent.close()


def _name_client(context: Any) -> str:
    """Return the client's name, shortened for a title."""
    info = getattr(getattr(context.session, "client_params", None), "client_info", None)
    name = " ".join(str(getattr(info, "name", "") or "").split())[:60]
    return name or "another agent"


def _build_list() -> ListToolsResult:
    from mcp_types import ListToolsResult, Tool, ToolAnnotations

    return ListToolsResult(
        tools=[
            Tool(
                name=served.name,
                title=served.title,
                description=served.description,
                input_schema=served.build_schema(),
                annotations=ToolAnnotations(
                    title=served.title,
                    read_only_hint=served.is_reading,
                    destructive_hint=False,
                    idempotent_hint=served.is_reading,
                    open_world_hint=False,
                ),
            )
            for served in TOOLS
        ]
    )


async def _answer(agent: OutsideAgent, name: str, arguments: dict[str, Any]) -> CallToolResult:
    """Carry out a call. Errors are returned as its result, so that the caller can correct them."""
    from mcp_types import CallToolResult, TextContent

    tool = next((served for served in TOOLS if served.name == name), None)
    result: str | dict[str, Any]
    try:
        if tool is None:
            names = ", ".join(served.name for served in TOOLS)
            raise ToolInputInvalid(f"There is no tool {name[:100]!r}; there are {names}.")
        result, is_error = await tool.call(agent, arguments)
    except AgentTuiError as problem:
        result, is_error = problem.format_with_hint(), True
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, indent=2)
    structured_content = None if isinstance(result, str) else result
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=structured_content, is_error=is_error
    )
