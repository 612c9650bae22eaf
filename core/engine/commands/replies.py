"""Replies of the user to approvals and questions: they resolve the waiting turn.

A late answer starts another turn. It is recorded first, so the model learns of it whatever happens then.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from functools import partial

from core.engine.session.session import Session
from core.engine.session.tasks import Effect
from core.engine.session.turns import ask_model, reserve_turn, start_turn
from core.errors import CommandRejected
from core.permissions.policy import check_pattern
from core.protocol import commands as cmd
from core.protocol.documents import Question, QuestionAnswer
from core.protocol.events import QuestionAnswered, QuestionAsked

MAX_ANSWER = 100_000  # characters of an answer in the user's own words
_LATE_ANSWER_INSTRUCTION = "I have answered what you asked before. Go on with that."


def prepare_approval(session: Session, command: cmd.ApprovalAnswer) -> Effect:
    """Check the decision on an approval, also a subagent's. Raises `CommandRejected`, `AgentTuiError` for a pattern."""
    _check_unanswered(session, command.id, "approval")
    request = session.state.approvals.get(command.id)
    asking = session.subagents.get(request.subagent, session) if request is not None else session
    if request is None or asking.context is None:
        raise CommandRejected(f"no approval {command.id!r} is waiting.", code="approval_unknown")
    if command.pattern:
        check_pattern(command.pattern, request.subject, "allow" if command.decision == "allow_always" else "deny")
    if command.decision not in request.options:
        raise CommandRejected(
            f"{command.decision!r} is not offered here.",
            hint=f"Choose one of {', '.join(request.options)}.",
            code="decision_not_offered",
        )
    if command.by == "program" and not command.decision.startswith("reject"):
        raise CommandRejected("only the user can allow this.", code="decision_not_offered")
    session.user.answered.add(command.id)
    resolve = partial(asking.user.resolve_approval, answerer=command.by)
    return partial(resolve, command.id, command.decision, command.note, command.pattern)


def prepare_question_reply(session: Session, command: cmd.QuestionReply, *, begins: bool = True) -> Effect:
    """Check the answers to a question and return their effect. Raises `CommandRejected` if they do not fit it.
    `begins`: a late answer starts a turn. For a subagent's question it does not: its build starts that turn."""
    _check_unanswered(session, command.id, "question")
    question_event = session.state.questions.get(command.id)
    if question_event is not None and question_event.subagent in session.subagents:
        return prepare_question_reply(session.subagents[question_event.subagent], command, begins=False)
    is_awaited = session.user.is_question_open(command.id)
    if question_event is None or not (question_event.lasting or is_awaited):
        raise CommandRejected(
            f"no question {command.id!r} is waiting.", hint="It was answered or dismissed.", code="question_unknown"
        )
    _check_answers(question_event, command.answers)
    if command.by == "program" and command.answers:
        raise _build_rejection("answers are the user's.", "Give none where nobody answered.")
    if command.answers and not is_awaited and not session.turn_slot.is_running:
        session.routes.open()  # whether there is a model to tell
    session.user.answered.add(command.id)
    answer_event = QuestionAnswered(id=question_event.id, answers=command.answers, by=command.by)
    return partial(_apply_answers, session, question_event, answer_event, begins=begins)


def _check_unanswered(session: Session, identity: str, kind: str) -> None:
    """Raise `CommandRejected` for what another client was faster with: two answers may come at the same moment."""
    if identity in session.user.answered:
        raise CommandRejected(
            f"this {kind} was answered already.", hint="The first answer holds.", code="already_answered"
        )


def _check_answers(question_event: QuestionAsked, answers: tuple[QuestionAnswer, ...]) -> None:
    """Raise `CommandRejected` unless each answer names a part of the question once and has a sensible length."""
    questions = {question.id: question for question in question_event.questions}
    for answer in answers:
        question = questions.get(answer.question)
        if question is None:
            raise _build_rejection(
                f"the question has no part {answer.question!r}.", f"Its parts are {', '.join(questions)}."
            )
        _check_options(question, answer.options)
        if not answer.options and not answer.text.strip():
            raise _build_rejection(
                f"the answer to {answer.question!r} is empty.", "Choose an option, or write something."
            )
        if len(answer.text) > MAX_ANSWER:
            size = f"{len(answer.text):,} characters; at most {MAX_ANSWER:,} can be sent."
            raise _build_rejection(
                f"the answer to {answer.question!r} has {size}", "Put it into a file and name the file."
            )
    twice = [question_id for question_id, count in Counter(answer.question for answer in answers).items() if count > 1]
    if twice:
        raise _build_rejection(f"{twice[0]!r} is answered twice.")


def _check_options(question: Question, option_ids: tuple[str, ...]) -> None:
    known_ids = [option.id for option in question.options]
    if strange := [option_id for option_id in option_ids if option_id not in known_ids]:
        raise _build_rejection(
            f"{question.id!r} has no option {strange[0]!r}.", f"Its options are {', '.join(known_ids)}."
        )
    if len(set(option_ids)) < len(option_ids) or (len(option_ids) > 1 and not question.allow_multiple):
        raise _build_rejection(f"{question.id!r} takes one option, once.", "Choose one of them.")


def _build_rejection(message: str, hint: str = "") -> CommandRejected:
    return CommandRejected(message, hint=hint, code="question_unknown" if "no part" in message else "answer_invalid")


async def _apply_answers(
    session: Session, question_event: QuestionAsked, answer_event: QuestionAnswered, *, begins: bool
) -> None:
    """Hand the answers to the waiting turn, else record them and start a turn."""
    if session.user.resolve_question(answer_event.id, answer_event.answers, answerer=answer_event.by):
        return
    if question_event.id not in session.state.questions:
        return  # answered meanwhile
    session.emit(answer_event)
    if not answer_event.answers or not begins:
        return
    turn = session.state.current_turn
    if turn is not None and question_event.call in turn.calls:
        await session.turn_slot.wait_ended()  # it asked, and is being stopped
    if not session.turn_slot.is_running:
        from core.agent.context.reminders import summarize_answers

        with suppress(CommandRejected):  # a turn has begun meanwhile: it is told at its next step
            await reserve_turn(session)
            prompt = summarize_answers(question_event.questions, answer_event.answers)
            start_turn(session, partial(ask_model, prompt=prompt, instruction=_LATE_ANSWER_INSTRUCTION), prompt)
