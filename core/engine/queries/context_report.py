"""Estimate what the model is sent, by part, in tokens: where the context went, and why each part is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from core.agent.context.history_parts import list_history_parts
from core.agent.context.prefix import Prefix
from core.agent.context.prompt_setup import load_setup
from core.agent.context.token_meter import TokenMeter
from core.agent.turn.turn_context import TurnContext
from core.protocol.queries import ContextAnswer, ContextPart
from core.state.session import SessionState

FIXED: Final = "it is the beginning of every request, the same bytes for the whole session"
_RULE: Final = re.compile(r'<rule path="([^"]*)"[^>\n]*>\n.*?\n</rule>', re.DOTALL)


async def report_context(context: TurnContext | None, state: SessionState) -> ContextAnswer:
    """Return the parts of the next request. Before the first turn: only what the log tells."""
    if context is None:
        told = tuple(_list_history(state, TokenMeter()))
        return ContextAnswer(
            parts=told, used=state.context_used, window=state.context_window, notes=_describe_losses(state)
        )
    made = await load_setup(context)
    meter = context.memory.meter
    parts = (*_list_prefix(context, made.prefix), *_list_history(state, meter))
    used = meter.count_tokens(made.size, state.messages)
    window = state.context_window or context.routes.current.window
    return ContextAnswer(parts=parts, used=used, window=window, notes=_describe_losses(state))


def _describe_losses(state: SessionState) -> tuple[str, ...]:
    count = state.dropped_reasoning_count
    void = f"The reasoning of {count} earlier answer{'' if count == 1 else 's'} is not sent any more." if count else ""
    missed = f"The provider's cache was missed: {state.cache_miss}." if state.cache_miss else ""
    return tuple(filter(None, (void, missed)))


def _describe_variant(context: TurnContext) -> str:
    """Name the dialect and prompt variant unless they are the default ones."""
    short = context.memory.variants.is_short(context.routes.current.id) and context.dialect != "command"
    words = (context.dialect if context.dialect != "native" else "", "short" if short else "")
    return ", ".join(filter(None, words))


def _list_prefix(context: TurnContext, prefix: Prefix) -> Iterator[ContextPart]:
    """List what every request begins with: system prompt, the rules in it, tools."""
    estimate = context.memory.meter.estimate
    rules = [(each[1], _measure(each[0])) for each in _RULE.finditer(prefix.system)]
    system = _measure(prefix.system) - sum(size for _, size in rules)
    yield ContextPart(
        name="system prompt",
        tokens=estimate(system),
        detail=_describe_variant(context),
        reason="who the agent is, fixed when the session begins",
        problem=FIXED,
    )
    for path, size in rules:
        reason = "a rule that held when the session began"
        yield ContextPart(name=path, tokens=estimate(size), detail="rule", reason=reason, problem=FIXED)
    tools = len(msgspec.json.encode(prefix.tools))
    count = f"{len(prefix.tools)} tools"
    yield ContextPart(name="tools", tokens=estimate(tools), detail=count, reason="what the agent can do", problem=FIXED)


def _list_history(state: SessionState, meter: TokenMeter) -> Iterator[ContextPart]:
    for each in list_history_parts(state.messages):
        yield ContextPart(
            id=each.id,
            name=each.name,
            tokens=meter.estimate(each.size),
            detail=each.detail,
            reason=each.reason,
            problem=each.problem,
        )


def _measure(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
