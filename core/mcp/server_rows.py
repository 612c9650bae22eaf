"""Rows of servers for the user: configuration, decisions and status. Texts of servers are stripped of escapes and
cut."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from core.mcp.config_files import load_servers
from core.mcp.consent import ConsentStore, ServerConsent
from core.mcp.server_config import ServerConfig, ServerProblem
from core.mcp.tool_lists import MAX_DESCRIPTION, MAX_SHOWN, CachedLists, OfferedTool, find_flags, load_list, name_tools
from core.mcp.wire.sdk_connection import ToolDefinition
from core.permissions.trusted_files import TrustCheck
from core.protocol import queries as q
from core.sandbox.plain_text import strip_escapes
from core.workspace import Workspace


class ServerRuntime(Struct, frozen=True, kw_only=True):
    """The runtime state of a server: its status, its problem, and the end of its log."""

    status: q.ServerState = "idle"
    problem: str = ""
    log: str = ""


def build_row(
    config: ServerConfig, consent: ConsentStore, life: ServerRuntime, tools: Iterable[ToolDefinition]
) -> q.ServerRow:
    """Build the row of a server. Raises `StateError` if the user's decisions can't be read."""
    server_consent, answer = consent.find(config.name), consent.get_answer(config)
    state: q.ServerState = "failed" if life.problem and life.status == "idle" else life.status
    if server_consent.is_off:
        state = "off"
    elif not answer:
        state = "unasked" if answer is None else "refused"
    offered_tools = name_tools(config.name, tools).values()
    rows = tuple(_build_tool_row(offered_tool, server_consent) for offered_tool in offered_tools)
    return q.ServerRow(
        name=config.name,
        source=config.source,
        is_project=config.is_project,
        is_remote=config.is_remote,
        state=state,
        problem=life.problem,
        entry=config.describe(),
        digest=config.compute_hash(),
        variables=config.list_variables(),
        tools=rows,
        log=life.log,
    )


def _build_tool_row(tool: OfferedTool, server_consent: ServerConsent) -> q.ServerToolRow:
    name = tool.definition.name
    return q.ServerToolRow(
        name=name,
        description=" ".join(strip_escapes(tool.definition.description or "").split())[:MAX_DESCRIPTION],
        tokens=len(tool.describe()) // 4,
        is_on=not server_consent.explain_off(name),
        is_held=name in server_consent.held,
        text=tool.describe(MAX_SHOWN),
        before=server_consent.held.get(name, ""),
        flags=find_flags(tool.definition),
        is_reading=tool.definition.is_reading,
    )


def list_rows(workspace: Workspace, check: TrustCheck | None) -> q.ServersAnswer:
    """List the servers of a workspace without starting any. Raises `StateError`."""
    configuration, consent = load_servers(workspace, check), ConsentStore(workspace.root)
    tool_lists = {
        server.name: load_list(server.compute_hash()) or CachedLists("", ()) for server in configuration.servers
    }
    rows = [
        build_row(server, consent, ServerRuntime(), tool_lists[server.name].tools) for server in configuration.servers
    ]
    problems = tuple(map(describe_problem, configuration.problems))
    return q.ServersAnswer(servers=tuple(rows), problems=problems, is_trusted=check is not None)


def describe_unavailable(
    failures: Mapping[str, str], consents: Mapping[str, ServerConsent], tools: Mapping[str, Iterable[ToolDefinition]]
) -> list[str]:
    """Return lines for the model about servers that can't be used (`failures`) and tools that are off."""
    lines = [f"- {name} can't be used: {reason}" for name, reason in sorted(failures.items())]
    for name, consent in sorted(consents.items()):
        off = [(definition.name, consent.explain_off(definition.name)) for definition in tools.get(name, ())]
        lines += [f"- {name}: its tool {tool} can't be used: {reason}" for tool, reason in off if reason]
    return lines


def describe_problem(problem: ServerProblem) -> str:
    """Return a line about an invalid entry."""
    if problem.reason.startswith(problem.source):
        return problem.reason
    whose = f"MCP server {problem.name} of " if problem.name else ""
    return f"{whose}{problem.source}: {problem.reason}"
