"""Answers that come when the call which asked has ended: the model is told of them beside what is said next."""

from __future__ import annotations

from collections.abc import Sequence

from core.agent.reminders import remind
from core.agent.session import SessionContext
from core.agent.tags import as_data
from core.prompts import render
from core.protocol.documents import Question, QuestionAnswer
from core.protocol.events import AnswersReported
from core.tools.ask_question import told

_SHOWN = 200  # characters of a question where it only says what an answer is to


def report_answers(session: SessionContext) -> None:
    """Tell the model, once, of the answers that it does not know."""
    untold = session.state.untold_answers
    if not untold:
        return
    texts = [as_data(told(each.asked.questions, each.answered.answers)) for each in untold.values()]
    ids = tuple(untold)
    remind(session, render("reminders/answers", answers="\n".join(texts)))
    session.emit(AnswersReported(ids=ids))


def in_short(questions: Sequence[Question], answers: Sequence[QuestionAnswer]) -> str:
    """One line a question, as the chat shows what began a turn."""
    given = {answer.question: answer for answer in answers}
    return "\n".join(f"{_clipped(each.text)} → {_said(each, given[each.id])}" for each in questions if each.id in given)


def _said(question: Question, answer: QuestionAnswer) -> str:
    labels = {option.id: option.label for option in question.options}
    return "; ".join([*(labels.get(key, key) for key in answer.options), *filter(None, [answer.text])])


def _clipped(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"
