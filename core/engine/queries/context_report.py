"""Estimate what the model is sent, by part, in tokens: the answer to "where did my context go?"."""

from __future__ import annotations

import msgspec

from core.agent.context.prompt_setup import load_setup
from core.agent.context.token_meter import measure_messages
from core.agent.turn.turn_context import TurnContext
from core.protocol.messages import AssistantMessage, Message, ToolMessage, UserMessage
from core.protocol.queries import ContextAnswer, ContextPart
from core.state.session import SessionState


async def report_context(context: TurnContext | None, state: SessionState) -> ContextAnswer:
    """Return the parts of the next request. Before the first turn: only what the log tells."""
    if context is None:
        return ContextAnswer(
            parts=(), used=state.context_used, window=state.context_window, notes=_describe_losses(state)
        )
    made = await load_setup(context)
    estimate = context.memory.meter.estimate
    tools = len(msgspec.json.encode(made.prefix.tools))
    system = estimate(len(made.prefix.system.encode("utf-8", "replace")))
    parts = [
        ContextPart(name="system prompt", tokens=system, detail=_describe_variant(context)),
        ContextPart(name="tools", tokens=estimate(tools), detail=f"{len(made.prefix.tools)} tools"),
    ]
    for name, messages in _group_by_kind(state.messages).items():
        detail = f"{len(messages)} message{'' if len(messages) == 1 else 's'}"
        parts.append(ContextPart(name=name, tokens=estimate(measure_messages(messages)), detail=detail))
    used = context.memory.meter.count_tokens(made.size, state.messages)
    window = state.context_window or context.routes.current.window
    return ContextAnswer(parts=tuple(parts), used=used, window=window, notes=_describe_losses(state))


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


def _group_by_kind(messages: list[Message]) -> dict[str, list[Message]]:
    found: dict[str, list[Message]] = {}
    for message in messages:
        found.setdefault(_name_kind(message), []).append(message)
    return found


def _name_kind(message: Message) -> str:
    match message:
        case UserMessage(origin="user"):
            return "your messages"
        case UserMessage():
            return "reminders"
        case AssistantMessage():
            return "answers"
        case ToolMessage():
            return "tool results"
