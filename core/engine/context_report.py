"""What the model is sent, by part, in estimated tokens: the answer to "where did my context go?"."""

from __future__ import annotations

import msgspec

from core.agent.context import prepared
from core.agent.limits import size_of
from core.agent.session import SessionContext
from core.protocol.messages import AssistantMessage, Message, ToolMessage, UserMessage
from core.protocol.queries import ContextPart, ContextReport
from core.sessions.fold import SessionState


async def report(context: SessionContext | None, state: SessionState) -> ContextReport:
    """The parts of the next request. Before the first turn, only what the log tells."""
    if context is None:
        return ContextReport(parts=(), used=state.context_used, window=state.context_window, notes=_notes(state))
    made = await prepared(context)
    estimate = context.meter.estimate
    tools = len(msgspec.json.encode(made.prefix.tools))
    parts = [
        ContextPart(
            name="system prompt",
            tokens=estimate(len(made.prefix.system.encode("utf-8", "replace"))),
            detail=_variant(context),
        ),
        ContextPart(name="tools", tokens=estimate(tools), detail=f"{len(made.prefix.tools)} tools"),
    ]
    for name, messages in _by_kind(state.messages).items():
        parts.append(
            ContextPart(
                name=name,
                tokens=estimate(size_of(messages)),
                detail=f"{len(messages)} message{'' if len(messages) == 1 else 's'}",
            )
        )
    used = context.meter.tokens(made.size, state.messages)
    window = state.context_window or context.route.window
    return ContextReport(parts=tuple(parts), used=used, window=window, notes=_notes(state))


def _notes(state: SessionState) -> tuple[str, ...]:
    """What the last request lost, and why."""
    count = state.dropped_reasoning
    void = f"The reasoning of {count} earlier answer{'' if count == 1 else 's'} is not sent any more." if count else ""
    missed = f"The provider's cache was missed: {state.cache_miss}." if state.cache_miss else ""
    return tuple(filter(None, (void, missed)))


def _variant(context: SessionContext) -> str:
    """How the model is addressed, where that is not with function calls and the whole prompts."""
    short = context.variants.is_short(context.route.id) and context.dialect != "command"
    words = (context.dialect if context.dialect != "native" else "", "short" if short else "")
    return ", ".join(filter(None, words))


def _by_kind(messages: list[Message]) -> dict[str, list[Message]]:
    found: dict[str, list[Message]] = {}
    for message in messages:
        found.setdefault(_kind(message), []).append(message)
    return found


def _kind(message: Message) -> str:
    match message:
        case UserMessage(origin="user"):
            return "your messages"
        case UserMessage():
            return "reminders"
        case AssistantMessage():
            return "answers"
        case ToolMessage():
            return "tool results"
