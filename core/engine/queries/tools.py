"""Queries about what the model can call: tools, with what each costs or why one is absent, and kinds of subagents."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from core.agent.context.offers import find_last_offer
from core.agent.context.turn_context import TurnContext
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
    from core.agent.turn.prompt_setup import load_setup
    from core.engine.session.turns import build_context

    session = source.require_session(query.session)
    context = session.context or build_context(session)
    setup = await load_setup(context)
    estimate = context.memory.meter.estimate
    resolve_name = context.tools.resolve_name
    token_counts = {resolve_name(tool.name): estimate(len(msgspec.json.encode(tool))) for tool in setup.prefix.tools}
    offer_text = "\n".join(find_last_offer(offer.tag, context.state.messages) for offer in context.offers)
    rows = await asyncio.to_thread(lambda: tuple(_list_builtin(context, token_counts, offer_text)))
    return q.ToolsAnswer(tools=(*rows, *session.server_access.list_rows(offer_text)), mode=context.state.mode)


def _list_builtin(context: TurnContext, token_counts: dict[str, int], offer_text: str) -> Iterator[ToolRow]:
    tools, permissions = context.tools, context.permissions
    for name in tools:
        kind = tools[name]
        refusal = permissions.explain_tool_refusal(name, kind.access)
        if not refusal and not permissions.is_granted(kind.access):
            refusal = f"{permissions.mode} mode does not grant it"
        row = ToolRow(name=name, access=kind.access.value, state="absent", aliases=tools.list_aliases(name))
        if refusal:
            yield replace(row, reason=refusal)
        elif name in token_counts:
            yield replace(
                row, state="listed", tokens=token_counts[name], reason=permissions.describe_tool_narrowing(name)
            )
        elif name in _WORD.findall(offer_text):
            yield replace(row, state="told", reason="told beside the list")
        else:
            yield replace(row, state="callable", reason=FORMAT if name in _FORMATS else LATER)


async def answer_agents(source: QuerySource, query: q.AgentsQuery) -> q.AgentsAnswer:
    """Return every kind of subagent, with what its file says that is not used, or keeps it from starting."""
    session, trust = source.sessions.get(query.session), source.services.trust
    check = trust.is_readable if trust.trusted else None
    tools = session.tools if session is not None else Toolset()
    agent_types = await asyncio.to_thread(
        load_agent_types, source.services.workspace, check, tools, source.services.settings.browser
    )
    agents = tuple(
        q.LoadedAgent(
            name=agent_type.name,
            description=agent_type.description,
            source=agent_type.source,
            path=agent_type.path,
            model=agent_type.model,
            other_model=agent_type.other_model,
            is_readonly=agent_type.readonly,
            tools=None if agent_type.tools is None else tuple(sorted(agent_type.tools - agent_type.denied)),
            problem="; ".join(agent_type.problems),
            refusal="; ".join(agent_type.refusals),
        )
        for agent_type in agent_types.types
    )
    skipped_extensions = tuple(
        q.SkippedExtension(path=skipped_file.path, reason=skipped_file.reason) for skipped_file in agent_types.skipped
    )
    return q.AgentsAnswer(agents=agents, skipped=skipped_extensions, is_trusted=check is not None)
