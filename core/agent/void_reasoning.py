"""What a model thought and can no longer be sent: told once for each cause, and given up when the API refuses it.

A model's reasoning is bound to every byte before it. Providers find out what is void and leave it out; here the user
is told why, and what it cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeGuard

from msgspec.structs import replace

from core.agent.session import SessionContext
from core.errors import ProviderError
from core.protocol.events import Notice, ReasoningDropped
from core.protocol.messages import AssistantMessage, Message, Usage
from core.providers.base import RequestReport
from core.providers.wire.request_bytes import holds_reasoning

REFUSED = "reasoning_refused"
KEPT = "What was said and done stays."


def give_up(session: SessionContext, error: ProviderError) -> bool:
    """After a refusal: go on without the reasoning of all answers so far. False: it was none, or there is none."""
    count = len(_thoughtful(session.state.messages))
    if error.code != REFUSED or not any(_has_wire(each) for each in session.state.messages):
        return False
    session.emit(ReasoningDropped(answers=count))
    session.emit(
        Notice(
            level="warning",
            message=f"{_what(count)} was refused by {session.route.id} and is not sent any more.",
            hint=f"{KEPT} The whole conversation is read anew once.",
        )
    )
    return True


def tell_dropped(session: SessionContext, report: RequestReport, usage: Usage) -> None:
    """Tell of reasoning that was left out of a request, if more was than the time before."""
    if report.dropped_reasoning <= session.state.dropped_reasoning:
        return
    fresh = usage.prompt_tokens - usage.cached_tokens
    cost = f" About {fresh:,} tokens were read anew." if fresh > 0 else ""
    others = [each for each in _thoughtful(session.state.messages) if each.model != session.route.id]
    if len(others) >= report.dropped_reasoning:
        why = "another model thought it"
    else:
        why = "what stood before it is not what it was when it was thought"
    message = f"{_what(report.dropped_reasoning)} is not sent any more: {why}."
    session.emit(Notice(level="info", message=message, hint=f"{KEPT}{cost}"))


def without_bound(messages: Sequence[Message]) -> tuple[list[Message], int]:
    """Messages that will stand after other bytes than they did: what is bound to those goes back as text and calls. And
    how many answers lose their reasoning."""
    found = [replace(each, wire=None) if _is_bound(each) else each for each in messages]
    return found, sum(_is_bound(each) and holds_reasoning(each.wire) for each in messages)


def tell_shortened(session: SessionContext, count: int, fresh: int) -> None:
    """Tell what a compaction cost: `count` answers' reasoning, and `fresh` tokens that are read anew."""
    if count:
        message = f"{_what(count)} is not sent any more: the conversation before it was shortened."
        session.emit(Notice(level="info", message=message, hint=f"{KEPT} About {fresh:,} tokens are read anew."))


def _thoughtful(messages: Iterable[Message]) -> list[AssistantMessage]:
    return [each for each in messages if isinstance(each, AssistantMessage) and holds_reasoning(each.wire)]


def _has_wire(message: Message) -> TypeGuard[AssistantMessage]:
    return isinstance(message, AssistantMessage) and message.wire is not None


def _is_bound(message: Message) -> TypeGuard[AssistantMessage]:
    return isinstance(message, AssistantMessage) and message.wire is not None and bool(message.wire.binding)


def _what(count: int) -> str:
    return f"The reasoning of {count} earlier answer{'' if count == 1 else 's'}"
