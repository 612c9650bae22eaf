"""Deferred answers: they come when the call that asked has ended, and are reported beside what is said next."""

from __future__ import annotations

from collections.abc import Sequence

from core.agent.context.prompt_tags import escape_tags
from core.agent.context.reminders import append_reminder
from core.agent.turn.turn_context import TurnContext
from core.prompts import render
from core.protocol.documents import Question, QuestionAnswer
from core.protocol.events import AnswersReported
from core.tools.builtin.planning.ask_question import format_answers

_MAX_QUESTION = 200  # characters of a question where it only says what an answer is to


def report_answers(session: TurnContext) -> None:
    """Report to the model, once, the answers that it does not know."""
    untold = session.state.unreported_answers
    if not untold:
        return
    texts = [escape_tags(format_answers(each.asked.questions, each.answered.answers)) for each in untold.values()]
    ids = tuple(untold)
    append_reminder(session, render("reminders/answers", answers="\n".join(texts)))
    session.emit(AnswersReported(ids=ids))


def summarize_answers(questions: Sequence[Question], answers: Sequence[QuestionAnswer]) -> str:
    """Format answers, one line a question, as the chat shows what began a turn."""
    given = {answer.question: answer for answer in answers}
    return "\n".join(
        f"{_clip_line(each.text)} → {_format_answer(each, given[each.id])}" for each in questions if each.id in given
    )


def _format_answer(question: Question, answer: QuestionAnswer) -> str:
    labels = {option.id: option.label for option in question.options}
    return "; ".join([*(labels.get(key, key) for key in answer.options), *filter(None, [answer.text])])


def _clip_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_QUESTION else f"{line[: _MAX_QUESTION - 1]}…"
