"""Questions in the session's state: those that are open, and answers that the model does not know yet.

A lasting question stays open when its turn ends and when the program does. Its answer is delivered by the
result of the call that asked, or by a report; until then no interrupt and no kill loses it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.protocol import events as ev
from core.protocol.messages import Message, ToolMessage

if TYPE_CHECKING:
    from core.state.fold import SessionState


@dataclass(frozen=True, slots=True)
class UnreportedAnswer:
    """A question and its answer, which the model does not know yet."""

    asked: ev.QuestionAsked
    answered: ev.QuestionAnswered


def add_question(state: SessionState, _: ev.Envelope, event: ev.QuestionAsked) -> None:
    state.questions[event.id] = event


def record_answer(state: SessionState, _: ev.Envelope, event: ev.QuestionAnswered) -> None:
    question = state.questions.pop(event.id, None)
    if question is not None and question.lasting and event.answers:
        state.unreported_answers[event.id] = UnreportedAnswer(question, event)


def mark_answers_reported(state: SessionState, _: ev.Envelope, event: ev.AnswersReported) -> None:
    for each in event.ids:
        state.unreported_answers.pop(each, None)


def mark_answer_delivered(state: SessionState, message: Message) -> None:
    """Drop the answers that a message delivers: the successful result of the call that asked."""
    if isinstance(message, ToolMessage) and not message.is_error:
        for each in [key for key, told in state.unreported_answers.items() if told.asked.call == message.call_id]:
            del state.unreported_answers[each]
