"""Estimate what the model is sent, by part, in tokens: where the context went, and why each part is there.

The parts add up to what the status bar says is used: the total is what the provider counted, and a part has its share.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Final

import msgspec
from msgspec.structs import replace

from core.agent.context.history_parts import list_history_parts
from core.agent.context.prefix import Prefix
from core.agent.context.token_meter import TokenMeter
from core.agent.context.turn_context import TurnContext
from core.agent.turn.prompt_setup import load_setup
from core.protocol.queries import ContextAnswer, ContextPart
from core.state.session import SessionState

FIXED: Final = "it is the beginning of every request, the same bytes for the whole session"
_RULE: Final = re.compile(r'<rule path="([^"]*)"[^>\n]*>\n.*?\n</rule>', re.DOTALL)

Measured = tuple[ContextPart, int]  # a part whose tokens are not counted yet, and its bytes


async def report_context(context: TurnContext | None, state: SessionState) -> ContextAnswer:
    """Return the parts of the next request, whose tokens add up to those used. Before the first turn of this engine:
    only what the log tells."""
    history = list(_list_history(state))
    if context is None:
        used_tokens, window = state.context_used, state.context_window
        before = used_tokens - TokenMeter().estimate(sum(size for _, size in history))
        parts = share_out(history, used_tokens if before <= 0 else used_tokens - before)
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
        parts = share_out([*_list_prefix(context, setup.prefix), *history], used_tokens)
    return ContextAnswer(parts=parts, used=used_tokens, window=window, notes=_describe_losses(state))


def share_out(measurements: Sequence[Measured], used_tokens: int) -> tuple[ContextPart, ...]:
    """Give each part its share of the tokens, by its bytes; the shares add up to `used_tokens`. What stands between the
    parts (tags, names) is counted with them."""
    ends = list(accumulate((size for _, size in measurements), initial=0))
    total = ends[-1] or 1
    return tuple(
        replace(part, tokens=round(used_tokens * end / total) - round(used_tokens * start / total))
        for (part, _), (start, end) in zip(measurements, pairwise(ends), strict=True)
    )


def _describe_beginning(tokens: int) -> ContextPart:
    reason = "what a request begins with; it is listed by part once a turn has run"
    return ContextPart(name="system prompt and tools", tokens=tokens, reason=reason, problem=FIXED)


def _describe_losses(state: SessionState) -> tuple[str, ...]:
    count = state.dropped_reasoning_count
    void = f"The reasoning of {count} earlier answer{'' if count == 1 else 's'} is not sent any more." if count else ""
    cache_note = f"The provider's cache was missed: {state.cache_miss}." if state.cache_miss else ""
    return tuple(filter(None, (void, cache_note)))


def _describe_variant(context: TurnContext) -> str:
    """Name the dialect and prompt variant unless they are the default ones."""
    short = context.memory.variants.is_short(context.routes.current.id) and context.dialect != "command"
    words = (context.dialect if context.dialect != "native" else "", "short" if short else "")
    return ", ".join(filter(None, words))


def _list_prefix(context: TurnContext, prefix: Prefix) -> Iterator[Measured]:
    """List what every request begins with: system prompt, the rules in it, tools."""
    rules = [(match[1], _measure(match[0])) for match in _RULE.finditer(prefix.system)]
    reason = "who the agent is, fixed when the session begins"
    variant = _describe_variant(context)
    system = ContextPart(name="system prompt", tokens=0, detail=variant, reason=reason, problem=FIXED)
    yield system, _measure(prefix.system) - sum(size for _, size in rules)
    for path, size in rules:
        reason = "a rule that held when the session began"
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
