"""The client that the suite starts for each scenario, with the address of its server as last argument.

It takes the ways of the program: a login by a browser that comes back to loopback, then a connection with the login
that was kept, a list of the tools, and a call of each.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2

from core.errors import ToolFailed
from core.mcp.http_link import HttpLink, build_target
from core.mcp.login_flow import log_in
from core.mcp.server_config import OAuthOptions, ServerConfig, Variables
from core.mcp.wire.elicitation import Elicitation, ElicitationAnswer, answer_elicitation
from core.mcp.wire.sdk_connection import SdkConnection, ToolDefinition
from core.protocol.documents import Question, QuestionAnswer

VARIABLES = Variables(Path("/nowhere"), os.environ)
DOCUMENT = "https://conformance-test.local/client-metadata.json"
MOST_LOGINS = 2  # that a user does who is told to
_VALUES = {"string": "word", "integer": 3, "number": 5, "boolean": True, "array": [], "object": {}}
_visits: set[asyncio.Task[None]] = set()


def open_page(url: str) -> None:
    async def visit() -> None:
        async with httpx2.AsyncClient(follow_redirects=True, trust_env=False) as client:
            await client.get(url)

    task = asyncio.create_task(visit())
    _visits.add(task)


async def take_defaults(_: str, questions: tuple[Question, ...]) -> tuple[QuestionAnswer, ...]:
    return tuple(QuestionAnswer(question=question.id) for question in questions)


async def answer(elicitation: Elicitation) -> ElicitationAnswer:
    return await answer_elicitation("conformance", elicitation, take_defaults)


def build_arguments(tool: ToolDefinition) -> dict[str, Any]:
    """Arguments that fit a tool's schema, as a model would give them."""
    properties = tool.input_schema.get("properties") or {}
    return {name: _VALUES.get(str(schema.get("type")), "word") for name, schema in properties.items()}


def list_calls(tools: Sequence[ToolDefinition], context: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The calls of a scenario: those that it names, else one of each tool."""
    if calls := context.get("toolCalls"):
        return [(call["name"], call.get("arguments") or {}) for call in calls]
    names = {tool.name: tool for tool in tools}
    if "json_schema_echo" in names:  # it wants the other's schema back, as it came
        return [("json_schema_echo", {"schema": names["json_schema_2020_12_tool"].input_schema})]
    return [(tool.name, build_arguments(tool)) for tool in tools]


async def use(config: ServerConfig, context: dict[str, Any]) -> str:
    """Connect, list the tools and call them; return what the user is told in the end, "" = nothing."""
    link = HttpLink(config, build_target(config, VARIABLES))
    connection = SdkConnection(link.open_streams(), lambda: None, answer)
    await connection.load()
    try:
        await connection.open(20.0, "")
        for name, arguments in list_calls(await connection.list_tools(), context):
            await connection.call_tool(name, arguments, lambda *_: None)
    except ToolFailed as problem:
        print(f"{problem} {link.problem}", file=sys.stderr)
        if not link.problem and not connection.is_open:
            raise
    finally:
        await connection.close()
    return link.problem


async def main() -> None:
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    known = context.get("client_id", "")
    oauth = OAuthOptions(
        client_id=known, client_secret=context.get("client_secret", ""), metadata_url="" if known else DOCUMENT
    )
    config = ServerConfig(name="conformance", url=sys.argv[-1], transport="http", oauth=oauth)
    if scenario.startswith("auth/"):
        print(await log_in(config, VARIABLES, open_page, seconds=20.0), file=sys.stderr)
    for _ in range(MOST_LOGINS):
        if "agent-tui mcp login" not in await use(config, context):
            return
        print(await log_in(config, VARIABLES, open_page, seconds=20.0), file=sys.stderr)


if __name__ == "__main__":
    asyncio.run(main())
