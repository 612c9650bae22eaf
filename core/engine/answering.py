"""The user's answer to a question: for the turn that waits for it, or, when none does any more, the start of another.

An answer that comes late is written down first. Whatever happens then, the model is told of it at its next step.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from functools import partial

from core.engine.live import Effect, LiveSession
from core.errors import CommandRejected
from core.protocol import commands as cmd
from core.protocol.documents import Question, QuestionAnswer
from core.protocol.events import QuestionAnswered, QuestionAsked

LONGEST = 100_000  # characters of an answer in the user's own words
_GO_ON = "I have answered what you asked before. Go on with that."


def answered(live: LiveSession, command: cmd.QuestionReply, *, begins: bool = True) -> Effect:
    """The effect of an answer. Raises `CommandRejected` for one that does not fit the question. `begins`: a late one
    begins a turn; that of a subagent is begun by its build alone."""
    asked = live.runtime.state.questions.get(command.id)
    if asked is not None and asked.subagent in live.children:
        return answered(live.children[asked.subagent], command, begins=False)
    if asked is None or not (asked.lasting or _is_awaited(live, command.id)):
        raise CommandRejected(
            f"no question {command.id!r} is waiting.", hint="It was answered or dismissed.", code="question_unknown"
        )
    _check(asked, command.answers)
    if command.answers and not _is_awaited(live, command.id) and not live.turns.running:
        live.turns.route()  # whether there is a model to tell
    return partial(_take, live, asked, command.answers, begins=begins)


def _is_awaited(live: LiveSession, identity: str) -> bool:
    context = live.turns.context
    return context is not None and context.questions.is_open(identity)


def _check(asked: QuestionAsked, answers: tuple[QuestionAnswer, ...]) -> None:
    questions = {question.id: question for question in asked.questions}
    for answer in answers:
        question = questions.get(answer.question)
        if question is None:
            raise _rejected(f"the question has no part {answer.question!r}.", f"Its parts are {', '.join(questions)}.")
        _check_options(question, answer.options)
        if not answer.options and not answer.text.strip():
            raise _rejected(f"the answer to {answer.question!r} is empty.", "Choose an option, or write something.")
        if len(answer.text) > LONGEST:
            size = f"{len(answer.text):,} characters; at most {LONGEST:,} can be sent."
            raise _rejected(f"the answer to {answer.question!r} has {size}", "Put it into a file and name the file.")
    twice = [each for each, count in Counter(answer.question for answer in answers).items() if count > 1]
    if twice:
        raise _rejected(f"{twice[0]!r} is answered twice.")


def _check_options(question: Question, chosen: tuple[str, ...]) -> None:
    known = [option.id for option in question.options]
    if strange := [each for each in chosen if each not in known]:
        raise _rejected(f"{question.id!r} has no option {strange[0]!r}.", f"Its options are {', '.join(known)}.")
    if len(set(chosen)) < len(chosen) or (len(chosen) > 1 and not question.allow_multiple):
        raise _rejected(f"{question.id!r} takes one option, once.", "Choose one of them.")


def _rejected(message: str, hint: str = "") -> CommandRejected:
    return CommandRejected(message, hint=hint, code="question_unknown" if "no part" in message else "answer_invalid")


async def _take(live: LiveSession, asked: QuestionAsked, answers: tuple[QuestionAnswer, ...], *, begins: bool) -> None:
    runtime, turns, context = live.runtime, live.turns, live.turns.context
    if context is not None and context.resolve_question(asked.id, answers):
        return
    if asked.id not in runtime.state.questions:
        return  # answered meanwhile
    runtime.emit(QuestionAnswered(id=asked.id, answers=answers, by="user"))
    if not answers or not begins:
        return
    turn = runtime.state.turn
    if turn is not None and asked.call in turn.calls:
        await turns.ended()  # it asked, and is being stopped
    if not turns.running:
        from core.agent.late_answers import in_short

        with suppress(CommandRejected):  # a turn has begun meanwhile: it is told at its next step
            await turns.reserve()
            turns.start(in_short(asked.questions, answers), instruction=_GO_ON)
