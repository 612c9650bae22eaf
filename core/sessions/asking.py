"""The part of the fold that the user is asked: what waits for an answer, and which answers the model does not know yet.

A question that lasts stays open when its turn ends and when the program does. An answer to it counts as told when the
result of the call that asked carries it, or when it was reported; until then no interrupt and no kill loses it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.protocol import events as ev
from core.protocol.messages import Message, ToolMessage

if TYPE_CHECKING:
    from core.sessions.fold import SessionState


@dataclass(frozen=True, slots=True)
class Untold:
    """What was asked, and the answer that the model does not know."""

    asked: ev.QuestionAsked
    answered: ev.QuestionAnswered


def asked(state: SessionState, _: ev.Envelope, event: ev.QuestionAsked) -> None:
    state.questions[event.id] = event


def answered(state: SessionState, _: ev.Envelope, event: ev.QuestionAnswered) -> None:
    question = state.questions.pop(event.id, None)
    if question is not None and question.lasting and event.answers:
        state.untold_answers[event.id] = Untold(question, event)


def reported(state: SessionState, _: ev.Envelope, event: ev.AnswersReported) -> None:
    for each in event.ids:
        state.untold_answers.pop(each, None)


def heard(state: SessionState, message: Message) -> None:
    """A message of the history: the result of a call that went well tells the answer that it waited for."""
    if isinstance(message, ToolMessage) and not message.is_error:
        for each in [key for key, told in state.untold_answers.items() if told.asked.call == message.call_id]:
            del state.untold_answers[each]
