"""Queries about what the model is sent and can call: the context by part, tools with their cost, kinds of subagents.

The parts of the context add up to the usage in the status bar: the total is what the provider counted, and every part
has its share. A tool that is absent has a reason.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Final

import msgspec
from msgspec.structs import replace

from core.agent.context.dropped_reasoning import format_dropped
from core.agent.context.history_parts import list_history_parts
from core.agent.context.offers import find_last_offer
from core.agent.context.prefix import Prefix
from core.agent.context.token_meter import TokenMeter
from core.agent.context.turn_context import TurnContext
from core.agent.turn.prompt_setup import load_setup
from core.edit_formats import EDIT_TOOLS
from core.engine.queries.source import QuerySource
from core.engine.turns.agent_types import load_agent_types
from core.patterns import compile_lazily
from core.protocol import queries as q
from core.protocol.queries import ContextAnswer, ContextPart
from core.protocol.tools import ToolRow
from core.state.session import SessionState
from core.tools.toolset import Toolset

_WORD = compile_lazily(r"\w+")
_FORMATS = frozenset(tool.name for tool in EDIT_TOOLS)
FORMAT = "an edit format of other models"
ANNOUNCED_LATER = "described to the model when a turn, mode or model can use it"
FIXED: Final = "it starts every request, with the same bytes for the whole session"
_RULE: Final = compile_lazily(r'<rule path="([^"]*)"[^>\n]*>\n.*?\n</rule>', re.DOTALL)
Measured = tuple[ContextPart, int]  # a part whose tokens are not counted yet, and its bytes


async def answer_tools(source: QuerySource, query: q.ToolsQuery) -> q.ToolsAnswer:
    """Return the tools of the next request. Starts no server and asks for no consent."""
    from core.agent.turn.prompt_setup import load_setup
    from core.engine.turns.lifecycle import build_context

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
        if refusal is None and not permissions.is_granted(kind.access):
            refusal = f"{permissions.mode} mode does not grant it"
        row = ToolRow(name=name, access=kind.access.value, state="absent", aliases=tools.list_aliases(name))
        if refusal is not None:
            yield replace(row, reason=refusal)
        elif name in token_counts:
            yield replace(
                row, state="listed", tokens=token_counts[name], reason=permissions.describe_tool_narrowing(name)
            )
        elif name in _WORD.findall(offer_text):
            yield replace(row, state="told", reason="sent beside the list")
        else:
            yield replace(row, state="callable", reason=FORMAT if name in _FORMATS else ANNOUNCED_LATER)


async def answer_agents(source: QuerySource, query: q.AgentsQuery) -> q.AgentsAnswer:
    """Return all kinds of subagents, with ignored parts of their files and reasons why one can't start."""
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


async def report_context(context: TurnContext | None, state: SessionState) -> ContextAnswer:
    """Return the parts of the next request, whose tokens add up to those used. Before the first turn of this engine,
    only the history in the log is known by part."""
    history = list(_list_history(state))
    if context is None:
        used_tokens, window = state.context_used, state.context_window
        before = used_tokens - TokenMeter().estimate(sum(size for _, size in history))
        parts = distribute_tokens(history, used_tokens if before <= 0 else used_tokens - before)
        if history and before > 0:
            parts = (_describe_beginning(before), *parts)
    else:
        setup = await load_setup(context)
        meter, reported_tokens = context.memory.meter, state.context_used
        used_tokens = (
            reported_tokens
            if reported_tokens and not meter.is_calibrated
            else meter.count_tokens(setup.size, state.messages)
        )
        window = state.context_window or context.routes.current.window
        parts = distribute_tokens([*_list_prefix(context, setup.prefix), *history], used_tokens)
    return ContextAnswer(parts=parts, used=used_tokens, window=window, notes=_describe_losses(state))


def distribute_tokens(measurements: Sequence[Measured], used_tokens: int) -> tuple[ContextPart, ...]:
    """Distribute the tokens over the parts by their bytes; the shares add up to `used_tokens`, including the tags and
    names between the parts."""
    ends = list(accumulate((size for _, size in measurements), initial=0))
    total = ends[-1] or 1
    return tuple(
        replace(part, tokens=round(used_tokens * end / total) - round(used_tokens * start / total))
        for (part, _), (start, end) in zip(measurements, pairwise(ends), strict=True)
    )


def _describe_beginning(tokens: int) -> ContextPart:
    reason = "the start of every request; its parts are listed after the first turn"
    return ContextPart(name="system prompt and tools", tokens=tokens, reason=reason, problem=FIXED)


def _describe_losses(state: SessionState) -> tuple[str, ...]:
    answers = state.dropped_reasoning_count
    void = f"{format_dropped(answers)} is no longer sent." if answers else ""
    cache_note = f"The provider's cache was missed: {state.cache_miss}." if state.cache_miss else ""
    return tuple(filter(None, (void, cache_note)))


def _describe_variant(context: TurnContext) -> str:
    """Return the dialect and prompt variant unless they are the default ones."""
    short = context.memory.variants.is_short(context.routes.current.id) and context.dialect != "command"
    words = (context.dialect if context.dialect != "native" else "", "short" if short else "")
    return ", ".join(filter(None, words))


def _list_prefix(context: TurnContext, prefix: Prefix) -> Iterator[Measured]:
    """List the parts at the start of every request: system prompt, the rules in it, tools."""
    rules = [(match[1], _measure(match[0])) for match in _RULE.finditer(prefix.system)]
    reason = "who the agent is, fixed when the session begins"
    variant = _describe_variant(context)
    system = ContextPart(name="system prompt", tokens=0, detail=variant, reason=reason, problem=FIXED)
    yield system, _measure(prefix.system) - sum(size for _, size in rules)
    for path, size in rules:
        reason = "a rule loaded when the session started"
        yield ContextPart(name=path, tokens=0, detail="rule", reason=reason, problem=FIXED), size
    count = f"{len(prefix.tools)} tools"
    tools = ContextPart(name="tools", tokens=0, detail=count, reason="what the agent can do", problem=FIXED)
    yield tools, len(msgspec.json.encode(prefix.tools))


def _list_history(state: SessionState) -> Iterator[Measured]:
    for history_part in list_history_parts(state.messages):
        part = ContextPart(
            id=history_part.id,
            name=history_part.name,
            tokens=0,
            detail=history_part.detail,
            reason=history_part.reason,
            problem=history_part.problem,
        )
        yield part, history_part.size


def _measure(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
