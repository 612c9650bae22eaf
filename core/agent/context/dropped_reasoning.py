"""Reasoning that can no longer be sent: reported once per cause, and dropped when the API refuses it.

A model's reasoning is bound to every byte before it. The providers (`core.providers`) leave void reasoning out; this
module notifies the user of the reason and the cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeGuard

from msgspec.structs import replace

from core.agent.answer.documents import Emit
from core.agent.answer.receiver import ModelAnswer
from core.errors import ProviderError
from core.protocol.events import Notice, ReasoningDropped
from core.protocol.messages import AssistantMessage, Message
from core.providers.wire.request_bytes import has_reasoning
from core.state.session import SessionState
from core.text.counting import count

REASONING_REFUSED = "reasoning_refused"
ALL_ELSE_STAYS = "Everything else in the conversation stays."


def drop_refused_reasoning(state: SessionState, error: ProviderError, model: str, emit: Emit) -> bool:
    """Drop the reasoning of all answers so far if the API refused it. Returns False for other errors, or without
    any."""
    answers = len(_list_answers_with_reasoning(state.messages))
    wires = (message.wire for message in state.messages if isinstance(message, AssistantMessage))
    if error.code != REASONING_REFUSED or all(wire is None for wire in wires):
        return False
    emit(ReasoningDropped(answers=answers))
    emit(
        Notice(
            level="warning",
            message=f"{format_dropped(answers)} was refused by {model} and is no longer sent.",
            hint=f"{ALL_ELSE_STAYS} The whole conversation is sent uncached once.",
        )
    )
    return True


def notify_dropped(state: SessionState, answer: ModelAnswer, model: str, emit: Emit) -> None:
    """Notify the user that more reasoning was left out of a request than before."""
    report, usage = answer.report, answer.usage
    fresh = usage.prompt_tokens - usage.cached_tokens
    cost = f" About {fresh:,} tokens were sent uncached." if fresh > 0 else ""
    others = [message for message in _list_answers_with_reasoning(state.messages) if message.model != model]
    if len(others) >= report.dropped_reasoning:
        reason = "it came from another model"
    else:
        reason = "the conversation before it has changed"
    message = f"{format_dropped(report.dropped_reasoning)} is no longer sent: {reason}."
    emit(Notice(level="info", message=message, hint=f"{ALL_ELSE_STAYS}{cost}"))


def notify_removed(answer: ModelAnswer, model: str, emit: Emit) -> None:
    """Notify the user that the API itself left reasoning out of a request."""
    report = answer.report
    pieces = count("piece", report.removed_reasoning)
    message = f"The API of {model} left out {pieces} of earlier reasoning: {report.removal}."
    emit(Notice(level="info", message=message, hint=ALL_ELSE_STAYS))


def strip_bound_reasoning(messages: Sequence[Message]) -> tuple[list[Message], int]:
    """Return the messages without bound reasoning, and the number of answers that lose some."""
    stripped_messages = [replace(message, wire=None) if _is_bound(message) else message for message in messages]
    return stripped_messages, sum(_is_bound(message) and has_reasoning(message.wire) for message in messages)


def notify_shortened(emit: Emit, answers: int, fresh: int) -> None:
    """Notify the user that a compaction dropped the reasoning of this many answers; `fresh` tokens are read anew."""
    if answers:
        message = f"{format_dropped(answers)} is no longer sent: the conversation before it was shortened."
        emit(Notice(level="info", message=message, hint=f"{ALL_ELSE_STAYS} About {fresh:,} tokens are sent uncached."))


def _list_answers_with_reasoning(messages: Iterable[Message]) -> list[AssistantMessage]:
    return [message for message in messages if isinstance(message, AssistantMessage) and has_reasoning(message.wire)]


def _is_bound(message: Message) -> TypeGuard[AssistantMessage]:
    return isinstance(message, AssistantMessage) and message.wire is not None and bool(message.wire.binding)


def format_dropped(answers: int) -> str:
    """Format the number of answers without their reasoning, as the start of a sentence."""
    return f"The reasoning of {count('earlier answer', answers)}"
