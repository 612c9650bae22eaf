"""Elicitations: questions of servers to the user. The fields of a form become questions, the answers values of its
schema.

A form that asks for a secret is refused, because answers are stored in the session's log. Secrets belong on a page that
the user opens: its address is shown with its host, and never fetched.
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from core.errors import ConfigError, WebFailed
from core.patterns import compile_lazily
from core.protocol.documents import Option, Question, QuestionAnswer
from core.sandbox.plain_text import strip_escapes
from core.web.address import parse_address

MAX_FIELDS: Final = 20
MAX_CHOICES: Final = 100
MAX_MESSAGE: Final = 2_000  # characters
MAX_ROUNDS: Final = 3  # how often a form is shown again after an invalid answer
DECLINE: Final = "decline"
DEFAULT: Final = "default"
LEAVE_OUT: Final = "leave_out"
_DONE: Final = "done"
_SECRET: Final = compile_lazily(
    r"pass[-_ ]?(?:word|phrase|code|wd)|secret|token|api[-_ ]?key|private[-_ ]?key|access[-_ ]?key|credential"
    r"|\bpin\b|\bcvv\b|\bcvc\b|\botp\b|one[-_ ]time|seed phrase|card number",
    re.IGNORECASE,
)
_NEGATION: Final = compile_lazily(r"\b(?:do not|don't|never|must not)\b", re.IGNORECASE)
_SENTENCE_END: Final = compile_lazily(r"[.;()\n]+")
_SENTENCE: Final = compile_lazily(r"(?<=[.!?;\n])\s+")
_REQUEST: Final = compile_lazily(
    r"\b(?:enter|type|paste|provide|give|supply|insert|input|send|share|tell|need|what(?:'s| is))\b|[:?]\s*$",
    re.IGNORECASE,
)
_WORD_BORDER: Final = compile_lazily(r"(?<=[a-z0-9])(?=[A-Z])")
_NUMBERS: Final = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")
_KINDS: Final[dict[str, type | tuple[type, ...]]] = {
    **dict.fromkeys(("type", "title", "description", "format"), str),
    **dict.fromkeys(("enum", "enumNames", "oneOf", "anyOf"), list),
    **dict.fromkeys(_NUMBERS, (int, float)),
    "items": dict,
    "default": (str, int, float, bool, list),
}
Action = Literal["accept", "decline", "cancel"]


class Elicitation(Struct, frozen=True, kw_only=True):
    """A request of a server: a form (`schema`), or a page to open (`url`)."""

    message: str
    schema: Mapping[str, Any] = {}
    url: str = ""


class ElicitationAnswer(Struct, frozen=True, kw_only=True):
    """The answer to an elicitation. `notice`: a message for the user, "" = none."""

    action: Action
    content: dict[str, Any] | None = None
    notice: str = ""


# Asks questions under a title; () = dismissed, None = there is no user to ask.
AskUser = Callable[[str, tuple[Question, ...]], Awaitable["tuple[QuestionAnswer, ...] | None"]]


async def answer_elicitation(server: str, elicitation: Elicitation, ask: AskUser) -> ElicitationAnswer:
    """Return the user's answer to an elicitation."""
    try:
        if elicitation.url:
            return await _ask_about_page(server, elicitation, ask)
        return await _ask_form(server, elicitation, ask)
    except ConfigError as problem:
        return ElicitationAnswer(action="decline", notice=f"The MCP server {server} {problem.message}")


async def _ask_about_page(server: str, elicitation: Elicitation, ask: AskUser) -> ElicitationAnswer:
    try:
        address = parse_address(elicitation.url)
    except WebFailed as problem:
        raise ConfigError(f"asked to open a page, which was refused: {problem.message}") from None
    text = (
        f"{_clean(elicitation.message)}\n\nIt asks you to open a page of {address.host}:\n\n"
        f"{address}\n\nThe page was not fetched. Open it in a browser only if you know what it is."
    )
    options = (Option(id=_DONE, label="I opened it"), Option(id=DECLINE, label="No"))
    answers = await ask(f"The MCP server {server} asks", (Question(id="page", text=text, options=options),))
    if not answers:
        return ElicitationAnswer(action="cancel")
    return ElicitationAnswer(action="accept" if _DONE in answers[0].options else "decline")


async def _ask_form(server: str, elicitation: Elicitation, ask: AskUser) -> ElicitationAnswer:
    questions = build_questions(elicitation)
    title, wrong = f"The MCP server {server} asks", ""
    for _ in range(MAX_ROUNDS):
        first = questions[0] if not wrong else _prefix(questions[0], f"That is not valid: {wrong}")
        answers = await ask(title, (first, *questions[1:]))
        if not answers:
            return ElicitationAnswer(action="cancel" if answers is None else "decline")
        if any(DECLINE in answer.options for answer in answers):
            return ElicitationAnswer(action="decline")
        try:
            return ElicitationAnswer(action="accept", content=read_answers(elicitation.schema, answers))
        except ConfigError as problem:
            wrong = problem.message
    return ElicitationAnswer(action="cancel", notice=f"The MCP server {server} got no answer: {wrong}")


def build_questions(elicitation: Elicitation) -> tuple[Question, ...]:
    """Return a form as questions, at least one. Raises `ConfigError` for a form that must not or can't be shown."""
    fields = _list_fields(elicitation.schema)
    name = find_secret_field(fields)
    if (
        name is None
        and _asks_for_secret(elicitation.message)
        and any(not _list_choices(field) for field in fields.values())
    ):
        name = elicitation.message
    if name is not None:
        raise ConfigError(f"asked for a secret in a form ({_clean(' '.join(name.split()), 60)}), which was refused.")
    refuse = Option(id=DECLINE, label="Don't answer")
    if not fields:
        yes = Option(id=_DONE, label="Yes")
        return (Question(id=_DONE, text=_clean(elicitation.message) or "Go on?", options=(yes, refuse)),)
    required_names = _list_required(elicitation.schema)
    questions = [_build_question(name, field, is_required=name in required_names) for name, field in fields.items()]
    first = _prefix(questions[0], _clean(elicitation.message))
    return (replace(first, options=(*first.options, refuse)), *questions[1:])


def find_secret_field(fields: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Return the name of a field that asks for a secret, None = there is none. A choice is never secret."""
    for name, field in fields.items():
        texts = (name, field.get("title"), field.get("description"), field.get("format"))
        if not _list_choices(field) and any(_mentions_secret(str(text)) for text in texts if text):
            return name
    return None


def _mentions_secret(text: str) -> bool:
    plain = _WORD_BORDER.sub(" ", text).replace("_", " ")
    pairs = ((sentence, _SECRET.search(sentence)) for sentence in _SENTENCE_END.split(plain))
    return any(match is not None and not _NEGATION.search(sentence[: match.start()]) for sentence, match in pairs)


def _asks_for_secret(message: str) -> bool:
    """True if a sentence of a message requests a secret; a mere mention is no request."""
    return any(_REQUEST.search(sentence) and _mentions_secret(sentence) for sentence in _SENTENCE.split(message))


def _list_fields(schema: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    properties = schema.get("properties") or {}
    if not isinstance(properties, dict) or not all(isinstance(field, dict) for field in properties.values()):
        raise ConfigError("sent an invalid form.")
    if len(properties) > MAX_FIELDS:
        raise ConfigError(f"sent a form with {len(properties)} fields; at most {MAX_FIELDS} are shown.")
    return {str(name): _drop_invalid(field) for name, field in properties.items()}


def _drop_invalid(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema without keywords whose values have invalid types."""
    clean_schema: dict[str, Any] = {
        key: value for key, value in schema.items() if isinstance(value, _KINDS.get(key, ()))
    }
    clean_schema = {
        key: value for key, value in clean_schema.items() if key not in _NUMBERS or not isinstance(value, bool)
    }
    if isinstance(clean_schema.get("default"), list) and not all(
        isinstance(choice, str) for choice in clean_schema["default"]
    ):
        del clean_schema["default"]
    if "items" in clean_schema:
        clean_schema["items"] = _drop_invalid(clean_schema["items"])
    return clean_schema


def _list_required(schema: Mapping[str, Any]) -> tuple[str, ...]:
    names = schema.get("required")
    return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()


def _build_question(name: str, schema: Mapping[str, Any], *, is_required: bool) -> Question:
    title = _clean(str(schema.get("title") or name), 200)
    description = _clean(str(schema.get("description") or ""), 500)
    lines = [f"{title}: {description}" if description else title, _describe_limits(schema, is_required=is_required)]
    return Question(
        id=name,
        text="\n".join(filter(None, lines)),
        options=_list_options(schema, is_required=is_required),
        allow_multiple=schema.get("type") == "array",
        header=title[:16],
    )


def _list_options(schema: Mapping[str, Any], *, is_required: bool) -> tuple[Option, ...]:
    default = schema.get("default")
    defaults = default if isinstance(default, list) else [default]
    choices = _list_choices(schema)
    if len(choices) > MAX_CHOICES:
        raise ConfigError(f"sent {len(choices)} choices; at most {MAX_CHOICES} are shown.")
    options = [
        Option(id=f"choice:{index}", label=_clean(label, 200), recommended=value in defaults)
        for index, (value, label) in enumerate(choices)
    ]
    if not choices and default is not None:
        options.append(Option(id=DEFAULT, label=_clean(str(default), 500), recommended=True))
    if not is_required:
        options.append(Option(id=LEAVE_OUT, label="Leave it out"))
    return tuple(options)


def _list_choices(schema: Mapping[str, Any]) -> list[tuple[Any, str]]:
    """Return the allowed values of a field with their labels; [] = any value."""
    if schema.get("type") == "boolean":
        return [(True, "Yes"), (False, "No")]
    holder = schema.get("items") if schema.get("type") == "array" else schema
    if not isinstance(holder, dict):
        return []
    if isinstance(alternatives := holder.get("oneOf") or holder.get("anyOf"), list):
        constants = [
            alternative
            for alternative in alternatives
            if isinstance(alternative, dict) and isinstance(alternative.get("const"), str)
        ]
        return [(constant["const"], str(constant.get("title") or constant["const"])) for constant in constants]
    values = [value for value in holder.get("enum") or [] if isinstance(value, str)]
    labels = holder.get("enumNames")
    is_named = isinstance(labels, list) and len(labels) == len(values)
    return list(zip(values, map(str, labels) if is_named and labels else values, strict=True))


def _describe_limits(schema: Mapping[str, Any], *, is_required: bool) -> str:
    kinds = {"integer": "a whole number", "number": "a number"}
    limits = [kinds.get(str(schema.get("type")), ""), _clean(str(schema.get("format") or ""), 20)]
    bounds = {"minimum": "at least", "maximum": "at most", "minLength": "characters, at least"}
    bounds |= {"maxLength": "characters, at most", "minItems": "choose at least", "maxItems": "choose at most"}
    limits += [f"{words} {schema[key]}" for key, words in bounds.items() if isinstance(schema.get(key), int | float)]
    limits += [] if is_required else ["optional"]
    return f"({', '.join(filter(None, limits))})" if any(limits) else ""


def read_answers(schema: Mapping[str, Any], answers: Sequence[QuestionAnswer]) -> dict[str, Any]:
    """Return the values of a form. Raises `ConfigError` for the first invalid one, with its name."""
    answers_by_question = {answer.question: answer for answer in answers}
    required_names = _list_required(schema)
    values: dict[str, Any] = {}
    for name, field in _list_fields(schema).items():
        try:
            value = _read_value(field, answers_by_question.get(name))
        except ValueError as problem:
            raise ConfigError(f"{_clean(name, 60)} {problem}.") from None
        if value is not None:
            values[name] = value
        elif name in required_names:
            raise ConfigError(f"{_clean(name, 60)} needs a value.")
    return values


def _read_value(schema: Mapping[str, Any], answer: QuestionAnswer | None) -> Any:
    """Return a value; None = omitted. Raises ValueError."""
    text = answer.text.strip() if answer is not None else ""
    options = answer.options if answer is not None else ()
    if LEAVE_OUT in options:
        return None
    choices = _list_choices(schema)
    if not text and (not options or DEFAULT in options):
        return schema.get("default")
    if choices:
        ids = {f"choice:{index}": value for index, (value, _) in enumerate(choices)}
        values = [ids[option] for option in options if option in ids] or _match_typed(text, choices)
        return _check_many(schema, values) if schema.get("type") == "array" else values[0]
    return _read_text(schema, text)


def _match_typed(text: str, choices: Sequence[tuple[Any, str]]) -> list[Any]:
    matches = [value for value, label in choices if text.casefold() in {str(value).casefold(), label.casefold()}]
    if not matches:
        raise ValueError("has to be one of the choices")
    return matches[:1]


def _check_many(schema: Mapping[str, Any], values: list[Any]) -> list[Any]:
    minimum, maximum = schema.get("minItems") or 0, schema.get("maxItems") or len(values)
    if not minimum <= len(values) <= maximum:
        raise ValueError(f"has to have {minimum} to {maximum} choices")
    return values


def _read_text(schema: Mapping[str, Any], text: str) -> Any:
    kind = schema.get("type")
    if kind in {"integer", "number"}:
        return _check_bounds(schema, _read_number(text, is_whole=kind == "integer"), "minimum", "maximum")
    if kind not in {None, "string"}:
        raise ValueError("has a type that can't be asked for here")
    _check_bounds(schema, len(text), "minLength", "maxLength")
    _check_format(str(schema.get("format") or ""), text)
    return text


def _read_number(text: str, *, is_whole: bool) -> int | float:
    try:
        number = int(text) if is_whole else float(text)
    except ValueError:
        raise ValueError("has to be a whole number" if is_whole else "has to be a number") from None
    if not math.isfinite(number):
        raise ValueError("has to be a number")
    return number


def _check_bounds(schema: Mapping[str, Any], value: float, minimum_key: str, maximum_key: str) -> int | float:
    low, high = schema.get(minimum_key), schema.get(maximum_key)
    subject = "a value of" if minimum_key == "minimum" else "characters,"
    if isinstance(low, int | float) and value < low:
        raise ValueError(f"has to have {subject} {low} or more")
    if isinstance(high, int | float) and value > high:
        raise ValueError(f"has to have {subject} {high} or less")
    return value


def _check_format(kind: str, text: str) -> None:
    try:
        if kind == "date":
            date.fromisoformat(text)
        elif kind == "date-time":
            datetime.fromisoformat(text)
    except ValueError:
        example = "2026-01-31" if kind == "date" else "2026-01-31T12:00:00Z"
        raise ValueError(f"has to look like {example}") from None
    if kind == "email" and not re.fullmatch(r"[^@\s]+@[^@\s]+", text):
        raise ValueError("has to be an e-mail address")
    if kind == "uri" and not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*:\S+", text):
        raise ValueError("has to be an address, such as https://example.org/")


def _prefix(question: Question, text: str) -> Question:
    return replace(question, text=f"{text}\n\n{question.text}") if text else question


def _clean(text: str, limit: int = MAX_MESSAGE) -> str:
    text = strip_escapes(text).strip()
    return text if len(text) <= limit else f"{text[:limit]} […]"
