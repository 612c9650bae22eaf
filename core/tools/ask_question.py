"""ask_question: questions to the user, with options to choose from."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from core.errors import ToolInputInvalid
from core.modes import Access
from core.protocol.documents import Option, Question, QuestionAnswer
from core.tools.base import Asker, Outcome, Tool

_UNANSWERED = (
    "The user did not answer. Go on with what you judge best and say which assumption you made, "
    "or end your turn if the work can't go on without an answer."
)


class AskedOption(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(min_length=1, max_length=80, description="Short; it comes back when it is chosen.")]
    label: Annotated[str, Meta(min_length=1, description="What the user reads.")]


class AskedQuestion(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    prompt: Annotated[str, Meta(min_length=1, description="The question.")]
    options: Annotated[tuple[AskedOption, ...], Meta(description="Answers to choose from.")] = ()
    id: Annotated[str, Meta(max_length=80, description="Short; given back with the answer.")] = ""
    allow_multiple: Annotated[bool, Meta(description="Several options may be chosen.")] = False


class AskQuestion(Tool[Asker], frozen=True, kw_only=True):
    name: ClassVar[str] = "ask_question"
    access: ClassVar[Access] = Access.ASK
    argument_names: ClassVar = {"text": "prompt", "question": "prompt"}

    questions: Annotated[tuple[AskedQuestion, ...], Meta(min_length=1, max_length=10, description="What to ask.")]
    title: Annotated[str, Meta(description="A heading over the questions.")] = ""

    def subject(self) -> str:
        return self.title or self.questions[0].prompt

    async def run(self, capability: Asker) -> Outcome:
        questions = tuple(_question(number, each) for number, each in enumerate(self.questions, start=1))
        doubled = [key for key, count in Counter(question.id for question in questions).items() if count > 1]
        if doubled:
            raise ToolInputInvalid(f"Two questions have the id {doubled[0]}.", hint="Give each its own id.")
        answers = await capability.ask(questions)
        if not answers:
            return Outcome(content=_UNANSWERED, summary="not answered")
        told = {answer.question: answer for answer in answers}
        rows = [_told(question, told.get(question.id)) for question in questions]
        return Outcome(content="\n".join(rows), summary=f"{len(told)} answered")


def _question(number: int, asked: AskedQuestion) -> Question:
    doubled = [key for key, count in Counter(option.id for option in asked.options).items() if count > 1]
    if doubled:
        raise ToolInputInvalid(
            f"Question {number} has two options with the id {doubled[0]}.", hint="Give each option its own id."
        )
    return Question(
        id=asked.id or f"q{number}",
        text=asked.prompt,
        options=tuple(Option(id=option.id, label=option.label) for option in asked.options),
        allow_multiple=asked.allow_multiple,
    )


def _told(question: Question, answer: QuestionAnswer | None) -> str:
    labels = {option.id: option.label for option in question.options}
    chosen = [f"{key} ({labels[key]})" if key in labels else key for key in answer.options] if answer else []
    text = [answer.text] if answer and answer.text else []
    return f"{question.id}: {question.text}\n  -> {'; '.join(chosen + text) or 'no answer'}"
