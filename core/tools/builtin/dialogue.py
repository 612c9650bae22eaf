"""The tools with which a model turns to the user: a question, a change of mode, and the end of its work.

A question that is malformed (too few or too many options, two that read alike, a text without words) goes back to the
model with the reason; the user never sees it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from textwrap import shorten
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from core.errors import ToolInputInvalid
from core.modes import Access, Mode
from core.protocol.documents import Option, Question, QuestionAnswer
from core.tools.base import Asker, GoalReply, Reader, ReadTool, Tool, ToolOutcome

FEWEST, MOST = 2, 4
LONGEST_TEXT, LONGEST_LABEL = 2_000, 300  # In characters.
# Parts of an option of other agents' tools that stand for the label, and those without an effect here.
_OPTION_NAMES = dict.fromkeys(("text", "answer", "value"), "label")
_OPTION_REMARKS = frozenset({"preview", "mode"})
_OWN_WORDS = "The user can always answer in their own words."


class AskedOption(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    label: Annotated[str, Meta(description="What the user reads.")]
    id: Annotated[str, Meta(max_length=80, description="Short; returned when chosen.")] = ""
    recommended: Annotated[bool, Meta(description="The one you would choose. At most one per question.")] = False


class AskedQuestion(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    prompt: Annotated[str, Meta(description="The question.")]
    options: Annotated[
        tuple[AskedOption, ...],
        Meta(description="Two to four answers.", extra_json_schema={"minItems": FEWEST, "maxItems": MOST}),
    ]
    id: Annotated[str, Meta(max_length=80, description="Short; returned with the answer.")] = ""
    header: Annotated[str, Meta(max_length=80, description="One or two words for its tab.")] = ""
    allow_multiple: Annotated[bool, Meta(description="Several options may be chosen.")] = False


class AskQuestion(Tool[Asker], frozen=True, kw_only=True):
    name: ClassVar[str] = "ask_question"
    access: ClassVar[Access] = Access.ASK
    argument_names: ClassVar = {
        **dict.fromkeys(("text", "question"), "prompt"),
        **dict.fromkeys(("multi_select", "multiple"), "allow_multiple"),
    }
    ignored_arguments: ClassVar = frozenset(("preview", "answers", "annotations", "metadata", "explanation"))
    # The user can always answer in their own words, and every list of options has one kind.
    assumed_arguments: ClassVar = {"type": "choice", "hide_other": False, "allowFreeformInput": True}
    ignores_unknown: ClassVar = True

    questions: Annotated[tuple[AskedQuestion, ...], Meta(min_length=1, max_length=10, description="At most ten.")]
    title: Annotated[str, Meta(max_length=500, description="A heading for the questions.")] = ""

    @classmethod
    def adapt_arguments(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        adapted_arguments = dict(arguments)
        alone = [adapted_arguments.pop(name) for name in ("question", "prompt", "text") if name in adapted_arguments]
        if alone and "questions" not in adapted_arguments:
            options = adapted_arguments.pop("options", None) or adapted_arguments.pop("follow_up", None) or []
            adapted_arguments["questions"] = [{"prompt": alone[0], "options": options}]
        if isinstance(adapted_arguments.get("questions"), list):
            adapted_arguments["questions"] = [_adapt_question(question) for question in adapted_arguments["questions"]]
        return adapted_arguments

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
        """Return the checked questions. Raises `ToolInputInvalid`."""
        questions = tuple(
            _build_question(number, asked_question) for number, asked_question in enumerate(self.questions, start=1)
        )
        if duplicate := _find_duplicate(question.id for question in questions):
            raise ToolInputInvalid(f"Two questions have the id {duplicate!r}.", hint="Give each its own id.")
        return questions


def _adapt_question(question: Any) -> Any:
    """Return a question whose options may be bare texts, or have a description next to the label."""
    if not isinstance(question, dict):
        return question
    if question.get("type") in {"yesno", "confirm"} and not question.get("options"):
        question = {name: value for name, value in question.items() if name != "type"} | {"options": ["Yes", "No"]}
    if question.get("type") in {"single", "single_choice", "multi", "multiple", "multi_choice"}:
        is_multiple = question["type"].startswith("multi")
        question = {name: value for name, value in question.items() if name != "type"} | {"allow_multiple": is_multiple}
    options = question.get("options") or question.get("choices")
    if not isinstance(options, list):
        return question
    rest = {name: value for name, value in question.items() if name != "choices"}
    return rest | {"options": [_adapt_option(option) for option in options]}


def _adapt_option(option: Any) -> Any:
    if isinstance(option, str):
        return {"label": option}
    if not isinstance(option, dict):
        return option
    option = {_OPTION_NAMES.get(name, name): value for name, value in option.items() if name not in _OPTION_REMARKS}
    if not isinstance(description := option.get("description"), str):
        return option
    rest = {name: value for name, value in option.items() if name != "description"}
    label = option.get("label")
    full_label = f"{label}: {description.strip()}"
    return rest | {"label": full_label} if label and description.strip() and len(full_label) <= LONGEST_LABEL else rest


def _build_question(number: int, asked_question: AskedQuestion) -> Question:
    subject = f"Question {number}"
    _check_text(f"{subject} has", "prompt", asked_question.prompt, LONGEST_TEXT)
    if not FEWEST <= len(asked_question.options) <= MOST:
        count = {0: "no options", 1: "one option"}.get(
            len(asked_question.options), f"{len(asked_question.options)} options"
        )
        raise ToolInputInvalid(
            f"{subject} has {count}; it needs {FEWEST} to {MOST}.",
            hint=f"Give the likeliest answers that really differ. {_OWN_WORDS}",
        )
    for option_number, option in enumerate(asked_question.options, start=1):
        _check_text(f"Option {option_number} of question {number} has", "label", option.label, LONGEST_LABEL)
    if duplicate := _find_duplicate(_strip_invisible(option.label.casefold()) for option in asked_question.options):
        raise ToolInputInvalid(
            f"{subject} has two options that read {duplicate!r}.", hint="Let each say something else."
        )
    if duplicate := _find_duplicate(option.id for option in asked_question.options if option.id):
        raise ToolInputInvalid(
            f"{subject} has two options with the id {duplicate!r}.", hint="Give each option its own id."
        )
    if sum(option.recommended for option in asked_question.options) > 1 and not asked_question.allow_multiple:
        raise ToolInputInvalid(f"{subject} recommends more than one option.", hint="Recommend the best one, or none.")
    return Question(
        id=asked_question.id.strip() or f"q{number}",
        text=asked_question.prompt.strip(),
        options=_build_options(asked_question.options),
        allow_multiple=asked_question.allow_multiple,
        header=asked_question.header.strip(),
    )


def _build_options(asked_options: Sequence[AskedOption]) -> tuple[Option, ...]:
    """Return the options, with ids for those without one."""
    used_ids = {option.id for option in asked_options}
    free = (name for name in map(str, range(1, 3 * MOST)) if name not in used_ids)
    return tuple(
        Option(id=option.id or next(free), label=option.label.strip(), recommended=option.recommended)
        for option in asked_options
    )


def _check_text(whose: str, field_name: str, text: str, limit: int) -> None:
    if not _strip_invisible(text):
        raise ToolInputInvalid(f"{whose} an empty {field_name}.", hint="Write what the user is to read.")
    if len(text) > limit:
        raise ToolInputInvalid(
            f"{whose} a {field_name} of {len(text):,} characters; at most {limit:,} can be shown.",
            hint="Explain it in your text before the call, and ask briefly.",
        )


def _strip_invisible(text: str) -> str:
    """Return the visible characters, without white space."""
    return "".join(character for character in text if character.isprintable() and not character.isspace())


def _find_duplicate(values: Iterable[str]) -> str:
    return next((value for value, count in Counter(values).items() if count > 1), "")


def format_answers(questions: Sequence[Question], answers: Sequence[QuestionAnswer]) -> str:
    """Return every question with its answer, for the model."""
    answers_by_question = {answer.question: answer for answer in answers}
    return "\n".join(
        f"{question.id}: {question.text}\n  -> {_format_answer(question, answers_by_question.get(question.id))}"
        for question in questions
    )


def _format_answer(question: Question, answer: QuestionAnswer | None) -> str:
    labels = {option.id: option.label for option in question.options}
    choices = [f"{key} ({labels[key]})" if key in labels else key for key in answer.options] if answer else []
    text = [answer.text] if answer and answer.text else []
    return "; ".join(choices + text) or "no answer"


def _advise_without_answer(questions: Sequence[Question]) -> str:
    """Return how to continue without an answer: with the recommended options, where there are any."""
    best = {question.id: [o for o in question.options if o.recommended] for question in questions}
    recommendations = "; ".join(
        f"{key}: {', '.join(f'{o.id} ({o.label})' for o in options)}" for key, options in best.items() if options
    )
    rest = [key for key, options in best.items() if not options]
    advice = (
        f"Continue with the recommended option ({recommendations})"
        if recommendations
        else "Continue with what you judge best"
    )
    others = f", and with what you judge best for {', '.join(rest)}" if recommendations and rest else ""
    return f"{advice}{others}, and state your assumption; or end your turn if you can't continue without an answer."


_MODE_NAMES = {"code": "agent", "act": "agent", "build": "agent", "default": "agent", "architect": "plan"}
_MODE_REASONS = frozenset({"explanation", "reason"})


def _name_mode(word: str) -> str:
    return _MODE_NAMES.get(word.strip().lower(), word.strip().lower())


class SwitchMode(Tool[Asker], frozen=True, kw_only=True):
    name: ClassVar[str] = "switch_mode"
    access: ClassVar[Access] = Access.ASK
    argument_names: ClassVar = {
        **dict.fromkeys(("mode", "mode_id", "mode_slug", "agentName"), "target_mode_id"),
        "reason": "explanation",
    }

    target_mode_id: Annotated[Mode, Meta(description="The new mode.")]
    explanation: Annotated[str, Meta(description="For the user: why that mode fits better.")] = ""

    @classmethod
    def adapt_arguments(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        return {
            name: value if name in _MODE_REASONS or not isinstance(value, str) else _name_mode(value)
            for name, value in arguments.items()
        }

    def subject(self) -> str:
        return self.target_mode_id.value

    async def run(self, capability: Asker) -> ToolOutcome:
        mode = self.target_mode_id.value
        if await capability.request_mode(mode, self.explanation):
            return ToolOutcome(content=f"The user agreed: you are in {mode} mode now.", summary=f"now in {mode} mode")
        content = f"The user did not agree to {mode} mode. Continue in this mode, or say what you can't do in it."
        return ToolOutcome(content=content, summary="declined")


class ProposeGoal(Tool[Asker], frozen=True, kw_only=True):
    name: ClassVar[str] = "propose_goal"
    access: ClassVar[Access] = Access.ASK
    argument_names: ClassVar = {
        **dict.fromkeys(("goal", "objective"), "condition"),
        **dict.fromkeys(("command", "verification"), "check"),
    }
    ignores_unknown: ClassVar = True

    condition: Annotated[str, Meta(min_length=1, max_length=LONGEST_TEXT, description="What has to hold at the end.")]
    check: Annotated[
        str, Meta(max_length=LONGEST_TEXT, description="A command that passes once it holds, if one can tell.")
    ] = ""

    def subject(self) -> str:
        return shorten(self.condition, LONGEST_LABEL, placeholder=" …")

    async def run(self, capability: Asker) -> ToolOutcome:
        if not _strip_invisible(self.condition):
            raise ToolInputInvalid("The condition is empty.", hint="Say what has to hold at the end.")
        reply = await capability.propose_goal(self.condition.strip(), self.check.strip())
        if reply.condition:
            return ToolOutcome(content=_describe_goal(reply, self), summary="the goal is set")
        if reply.refusal:
            proof = f"run `{self.check.strip()}`" if self.check.strip() else "prove it by a command"
            advice = f"Work until it holds all the same: {proof} before you stop, and say what came of it."
            return ToolOutcome(content=f"{reply.refusal} No goal is set. {advice}", summary="nobody could be asked")
        words = f" They said: {reply.words}" if reply.words else ""
        content = f"The user set no goal.{words} Do the task without one, and do not propose it again."
        return ToolOutcome(content=content, summary="declined")


def _describe_goal(reply: GoalReply, proposed: ProposeGoal) -> str:
    is_changed = (reply.condition, reply.check) != (proposed.condition.strip(), proposed.check.strip())
    lead = "The user set another goal" if is_changed else "The user agreed: the goal is set"
    check = f"The program runs `{reply.check}` over your changes" if reply.check else "A model judges"
    return (
        f"{lead}: {reply.condition}\n{check} whenever you would stop, and you go on until it is met. "
        "Do not change what is checked to make it pass."
    )


class ThinkTool(ReadTool, frozen=True, kw_only=True):
    name: ClassVar[str] = "think"
    argument_names: ClassVar = dict.fromkeys(("content", "thinking", "text"), "thought")
    # The numbers and the tree of thoughts that some agents' tools keep.
    ignored_arguments: ClassVar = frozenset(
        (
            *("next_thought_needed", "thought_number", "total_thoughts", "is_revision", "revises_thought"),
            *("branch_from_thought", "branch_id", "needs_more_thoughts"),
        )
    )

    thought: Annotated[str, Meta(description="The thought.")] = ""

    def subject(self) -> str:
        return shorten(self.thought, LONGEST_LABEL, placeholder=" …")

    async def run(self, capability: Reader) -> ToolOutcome:
        return ToolOutcome(content="Go on. Nothing was done.", summary="")


class FinishTool(ReadTool, frozen=True, kw_only=True):
    name: ClassVar[str] = "finish"
    argument_names: ClassVar = dict.fromkeys(
        ("result", "answer", "response", "summary", "text", "output", "reason"), "message"
    )
    ignored_arguments: ClassVar = frozenset(("thought", "task_completed", "command", "verified"))

    message: Annotated[str, Meta(description="What the user reads.")] = ""

    def subject(self) -> str:
        return ""

    async def run(self, capability: Reader) -> ToolOutcome:
        return ToolOutcome(content="The turn ends here.", summary="")
