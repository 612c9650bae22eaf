"""ask_question: questions to the user, each with a few options of which one may be recommended.

What is asked badly (too few or too many options, two that read alike, a text without words) goes back to the model with
what is wrong and where; nobody is bothered with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from core.errors import ToolInputInvalid
from core.modes import Access
from core.protocol.documents import Option, Question, QuestionAnswer
from core.tools.base import Asker, Tool, ToolOutcome

FEWEST, MOST = 2, 4
LONGEST_TEXT, LONGEST_LABEL = 2_000, 300  # characters
_OWN_WORDS = "The user can always answer in their own words."


class AskedOption(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    label: Annotated[str, Meta(description="What the user reads.")]
    id: Annotated[str, Meta(max_length=80, description="Short; it comes back when it is chosen.")] = ""
    recommended: Annotated[bool, Meta(description="The one that you would choose. At most one of a question.")] = False


class AskedQuestion(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    prompt: Annotated[str, Meta(description="The question.")]
    options: Annotated[
        tuple[AskedOption, ...],
        Meta(description="Two to four answers.", extra_json_schema={"minItems": FEWEST, "maxItems": MOST}),
    ]
    id: Annotated[str, Meta(max_length=80, description="Short; given back with the answer.")] = ""
    header: Annotated[str, Meta(max_length=80, description="One or two words for its tab.")] = ""
    allow_multiple: Annotated[bool, Meta(description="Several options may be chosen.")] = False


class AskQuestion(Tool[Asker], frozen=True, kw_only=True):
    name: ClassVar[str] = "ask_question"
    access: ClassVar[Access] = Access.ASK
    argument_names: ClassVar = {"text": "prompt", "question": "prompt", "multiSelect": "allow_multiple"}
    ignored_arguments: ClassVar = frozenset(("preview", "answers", "annotations", "metadata"))

    questions: Annotated[tuple[AskedQuestion, ...], Meta(min_length=1, max_length=10, description="At most ten.")]
    title: Annotated[str, Meta(max_length=500, description="A heading over the questions.")] = ""

    @classmethod
    def adapt_arguments(cls, given: dict[str, Any]) -> dict[str, Any]:
        found = dict(given)
        alone = [found.pop(name) for name in ("question", "prompt", "text") if name in found]
        if alone and "questions" not in found:
            options = found.pop("options", None) or found.pop("follow_up", None) or []
            found["questions"] = [{"prompt": alone[0], "options": options}]
        if isinstance(found.get("questions"), list):
            found["questions"] = [_adapt_question(each) for each in found["questions"]]
        return found

    def subject(self) -> str:
        return self.title or self.questions[0].prompt

    async def run(self, capability: Asker) -> ToolOutcome:
        questions = self.check_questions()
        answers = await capability.ask(questions, self.title.strip())
        if answers:
            return ToolOutcome(content=format_answers(questions, answers), summary=f"{len(answers)} answered")
        if capability.is_reachable:
            return ToolOutcome(
                content=f"The user did not answer. {_advise_without_answer(questions)}", summary="not answered"
            )
        text = f"Nobody can be asked in this session. {_advise_without_answer(questions)} Do not ask again."
        return ToolOutcome(content=text, summary="nobody could be asked")

    def check_questions(self) -> tuple[Question, ...]:
        """The questions as they are put. Raises `ToolInputInvalid`."""
        questions = tuple(_build_question(number, each) for number, each in enumerate(self.questions, start=1))
        if doubled := _find_duplicate(question.id for question in questions):
            raise ToolInputInvalid(f"Two questions have the id {doubled!r}.", hint="Give each its own id.")
        return questions


def _adapt_question(asked: Any) -> Any:
    """Return a question whose options may be bare texts, or have a text of their own beside the label."""
    if not isinstance(asked, dict) or not isinstance(asked.get("options"), list):
        return asked
    return asked | {"options": [_adapt_option(each) for each in asked["options"]]}


def _adapt_option(option: Any) -> Any:
    if isinstance(option, str):
        return {"label": option}
    if not isinstance(option, dict) or not isinstance(about := option.get("description"), str):
        return option
    rest = {name: value for name, value in option.items() if name != "description"}
    label = option.get("label")
    whole = f"{label}: {about.strip()}"
    return rest | {"label": whole} if label and about.strip() and len(whole) <= LONGEST_LABEL else rest


def _build_question(number: int, asked: AskedQuestion) -> Question:
    where = f"Question {number}"
    _check_text(f"{where} has", "prompt", asked.prompt, LONGEST_TEXT)
    if not FEWEST <= len(asked.options) <= MOST:
        count = {0: "no options", 1: "one option"}.get(len(asked.options), f"{len(asked.options)} options")
        raise ToolInputInvalid(
            f"{where} has {count}; it needs {FEWEST} to {MOST}.",
            hint=f"Give the likeliest answers that really differ. {_OWN_WORDS}",
        )
    for place, option in enumerate(asked.options, start=1):
        _check_text(f"Option {place} of question {number} has", "label", option.label, LONGEST_LABEL)
    if doubled := _find_duplicate(_strip_invisible(option.label.casefold()) for option in asked.options):
        raise ToolInputInvalid(f"{where} has two options that read {doubled!r}.", hint="Let each say something else.")
    if doubled := _find_duplicate(option.id for option in asked.options if option.id):
        raise ToolInputInvalid(f"{where} has two options with the id {doubled!r}.", hint="Give each option its own id.")
    if sum(option.recommended for option in asked.options) > 1 and not asked.allow_multiple:
        raise ToolInputInvalid(f"{where} recommends more than one option.", hint="Recommend the best one, or none.")
    return Question(
        id=asked.id.strip() or f"q{number}",
        text=asked.prompt.strip(),
        options=_build_options(asked.options),
        allow_multiple=asked.allow_multiple,
        header=asked.header.strip(),
    )


def _build_options(asked: Sequence[AskedOption]) -> tuple[Option, ...]:
    """With an id for each that came without one."""
    taken = {option.id for option in asked}
    free = (name for name in map(str, range(1, 3 * MOST)) if name not in taken)
    return tuple(
        Option(id=option.id or next(free), label=option.label.strip(), recommended=option.recommended)
        for option in asked
    )


def _check_text(whose: str, what: str, text: str, limit: int) -> None:
    if not _strip_invisible(text):
        raise ToolInputInvalid(f"{whose} an empty {what}.", hint="Write what the user is to read.")
    if len(text) > limit:
        raise ToolInputInvalid(
            f"{whose} a {what} of {len(text):,} characters; at most {limit:,} can be shown.",
            hint="Explain it in your text before the call, and ask in short.",
        )


def _strip_invisible(text: str) -> str:
    """Return what can be read of it: without white space and what is never drawn."""
    return "".join(each for each in text if each.isprintable() and not each.isspace())


def _find_duplicate(values: Iterable[str]) -> str:
    return next((value for value, count in Counter(values).items() if count > 1), "")


def format_answers(questions: Sequence[Question], answers: Sequence[QuestionAnswer]) -> str:
    """Each question with its answer, as the model is told."""
    given = {answer.question: answer for answer in answers}
    return "\n".join(f"{each.id}: {each.text}\n  -> {_format_answer(each, given.get(each.id))}" for each in questions)


def _format_answer(question: Question, answer: QuestionAnswer | None) -> str:
    labels = {option.id: option.label for option in question.options}
    chosen = [f"{key} ({labels[key]})" if key in labels else key for key in answer.options] if answer else []
    text = [answer.text] if answer and answer.text else []
    return "; ".join(chosen + text) or "no answer"


def _advise_without_answer(questions: Sequence[Question]) -> str:
    """Return how to go on without an answer: by what was recommended, where something was."""
    best = {each.id: [o for o in each.options if o.recommended] for each in questions}
    named = "; ".join(
        f"{key}: {', '.join(f'{o.id} ({o.label})' for o in found)}" for key, found in best.items() if found
    )
    rest = [key for key, found in best.items() if not found]
    taken = f"Go on with the recommended option ({named})" if named else "Go on with what you judge best"
    others = f", and with what you judge best for {', '.join(rest)}" if named and rest else ""
    return f"{taken}{others}, and name your assumption; or end your turn if the work can't go on without an answer."
