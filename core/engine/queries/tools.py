"""Queries about what the model can call: tools, with what each costs or why one is absent, and kinds of subagents."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from core.agent.turn.offers import find_told_offer
from core.agent.turn.turn_context import TurnContext
from core.edit_formats import EDIT_TOOLS
from core.engine.queries.source import QuerySource
from core.engine.subagents.agent_types import load_agent_types
from core.protocol import queries as q
from core.protocol.tools import ToolRow
from core.tools.toolset import Toolset

_WORD = re.compile(r"\w+")
_FORMATS = frozenset(each.name for each in EDIT_TOOLS)
FORMAT = "an edit format of other models"
LATER = "the model is told of it when a turn, a mode or a model has a use for it"


async def answer_tools(source: QuerySource, query: q.ToolsQuery) -> q.ToolsAnswer:
    """Return the tools as the next request would have them. No server is started, and nobody is asked."""
    from core.agent.context.prompt_setup import load_setup
    from core.engine.session.turns import build_context

    session = source.require_session(query.session)
    context = session.context or build_context(session)
    made = await load_setup(context)
    estimate = context.memory.meter.estimate
    own = context.tools.resolve_name
    listed = {own(each.name): estimate(len(msgspec.json.encode(each))) for each in made.prefix.tools}
    told = "\n".join(find_told_offer(each.tag, context.state.messages) for each in context.offers)
    rows = await asyncio.to_thread(lambda: tuple(_list_builtin(context, listed, told)))
    return q.ToolsAnswer(tools=(*rows, *session.server_access.list_rows(told)), mode=context.state.mode)


def _list_builtin(context: TurnContext, listed: dict[str, int], told: str) -> Iterator[ToolRow]:
    tools, permissions = context.tools, context.permissions
    for name in tools:
        kind = tools[name]
        refused = permissions.explain_tool_refusal(name, kind.access)
        if not refused and not permissions.is_granted(kind.access):
            refused = f"{permissions.mode} mode does not grant it"
        row = ToolRow(name=name, access=kind.access.value, state="absent", aliases=tools.list_aliases(name))
        if refused:
            yield replace(row, reason=refused)
        elif name in listed:
            yield replace(row, state="listed", tokens=listed[name], reason=permissions.describe_tool_narrowing(name))
        elif name in _WORD.findall(told):
            yield replace(row, state="told", reason="told beside the list")
        else:
            yield replace(row, state="callable", reason=FORMAT if name in _FORMATS else LATER)


async def answer_agents(source: QuerySource, query: q.AgentsQuery) -> q.AgentsAnswer:
    """Return every kind of subagent, with what its file says that is not used, or keeps it from starting."""
    session, trust = source.sessions.get(query.session), source.services.trust
    check = trust.is_readable if trust.trusted else None
    tools = session.tools if session is not None else Toolset()
    found = await asyncio.to_thread(
        load_agent_types, source.services.workspace, check, tools, source.services.settings.browser
    )
    agents = tuple(
        q.LoadedAgent(
            name=each.name,
            description=each.description,
            source=each.source,
            path=each.path,
            model=each.model,
            other_model=each.other_model,
            is_readonly=each.readonly,
            tools=None if each.tools is None else tuple(sorted(each.tools - each.denied)),
            problem="; ".join(each.problems),
            refusal="; ".join(each.refusals),
        )
        for each in found.types
    )
    skipped = tuple(q.SkippedExtension(path=each.path, reason=each.reason) for each in found.skipped)
    return q.AgentsAnswer(agents=agents, skipped=skipped, is_trusted=check is not None)
