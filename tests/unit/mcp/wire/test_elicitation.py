"""Forms of servers as questions, and the answers as values: what fits is taken, and a secret is never asked for."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ConfigError
from core.mcp.wire.elicitation import (
    DECLINE,
    DEFAULT,
    LEAVE_OUT,
    Elicitation,
    ElicitationAnswer,
    answer_elicitation,
    build_questions,
    find_secret_field,
    read_answers,
)
from core.protocol.documents import Question, QuestionAnswer


def form(required: tuple[str, ...] = (), **fields: dict[str, Any]) -> Elicitation:
    schema = {"type": "object", "properties": fields, "required": list(required)}
    return Elicitation(message="Which one?", schema=schema)


def typed(name: str, text: str) -> QuestionAnswer:
    return QuestionAnswer(question=name, text=text)


def chosen(name: str, *options: str) -> QuestionAnswer:
    return QuestionAnswer(question=name, options=options)


async def ask_nobody(*_: object) -> None:
    raise AssertionError("nobody is to be asked")


COLOURS = {"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"], "default": "g"}
SEVERAL = {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}, {"const": "b"}]}, "minItems": 1}


def test_each_kind_of_field_is_a_question_with_its_choices_and_its_default():
    name, count, sure, colour, many = build_questions(
        form(
            ("name",),
            name={"type": "string", "title": "Your name", "description": "As it is shown", "default": "Ada"},
            count={"type": "integer", "minimum": 1, "maximum": 5},
            sure={"type": "boolean", "default": True},
            colour=COLOURS,
            many=SEVERAL,
        )
    )
    assert name.text == "Which one?\n\nYour name: As it is shown"
    assert [(option.id, option.label, option.recommended) for option in name.options] == [
        (DEFAULT, "Ada", True),
        (DECLINE, "Don't answer", False),
    ]
    assert count.text == "count\n(a whole number, at least 1, at most 5, optional)"
    assert [(option.label, option.recommended) for option in sure.options] == [
        ("Yes", True),
        ("No", False),
        ("Leave it out", False),
    ]
    assert [(option.label, option.recommended) for option in colour.options][:2] == [("Red", False), ("Green", True)]
    assert ([option.label for option in many.options], many.allow_multiple) == (["A", "b", "Leave it out"], True)


@pytest.mark.parametrize(
    ("field", "answer", "value"),
    [
        ({"type": "string"}, typed("x", " word "), "word"),
        ({"type": "string", "default": "Ada"}, chosen("x", DEFAULT), "Ada"),
        ({"type": "string", "default": "Ada"}, chosen("x", LEAVE_OUT), None),
        ({"type": "integer"}, typed("x", "7"), 7),
        ({"type": "number", "maximum": 8}, typed("x", "7.5"), 7.5),
        ({"type": "boolean"}, chosen("x", "choice:1"), False),
        ({"type": "boolean", "default": True}, QuestionAnswer(question="y"), True),
        (COLOURS, chosen("x", "choice:0"), "r"),
        (COLOURS, typed("x", "red"), "r"),
        (SEVERAL, chosen("x", "choice:0", "choice:1"), ["a", "b"]),
        ({"type": "string", "format": "date"}, typed("x", "2026-01-31"), "2026-01-31"),
        ({"type": "string", "format": "email"}, typed("x", "a@b.example"), "a@b.example"),
    ],
)
def test_an_answer_becomes_the_value_that_the_form_wants(field, answer, value):
    assert read_answers(form(x=field).schema, [answer]) == ({} if value is None else {"x": value})


@pytest.mark.parametrize(
    ("field", "answer", "said"),
    [
        ({"type": "integer"}, typed("x", "7.5"), "x has to be a whole number"),
        ({"type": "integer", "minimum": 3}, typed("x", "2"), "x has to have a value of 3 or more"),
        ({"type": "number"}, typed("x", "nan"), "x has to be a number"),
        ({"type": "string", "minLength": 3}, typed("x", "ab"), "x has to have characters, 3 or more"),
        ({"type": "string", "format": "date"}, typed("x", "yesterday"), "x has to look like 2026-01-31"),
        ({"type": "string", "format": "uri"}, typed("x", "no address"), "x has to be an address"),
        ({"type": "object"}, typed("x", "{}"), "x has a type that can't be asked for here"),
        (COLOURS, typed("x", "blue"), "x has to be one of the choices"),
        ({**SEVERAL, "minItems": 2}, chosen("x", "choice:0"), "x has to have 2 to 1 choices"),
        ({"type": "string"}, chosen("x", LEAVE_OUT), "x needs a value"),
    ],
)
def test_an_answer_that_does_not_fit_says_what_is_wrong(field, answer, said):
    with pytest.raises(ConfigError, match=said):
        read_answers(form(("x",), x=field).schema, [answer])


@pytest.mark.parametrize(
    "field",
    [
        {"password": {}},
        {"userPassword": {}},
        {"api_key": {}},
        {"x": {"title": "API key"}},
        {"x": {"description": "Paste your access token here"}},
        {"clientSecret": {}},
        {"pin": {"type": "string"}},
        {"x": {"format": "password"}},
        {"x": {"description": "Your password. We do not share it."}},
        {"x": {"description": "An API key that is never shared"}},
    ],
)
async def test_a_form_that_asks_for_a_secret_is_refused_with_words_and_never_shown(field):
    answer = await answer_elicitation("far", form(name={"type": "string"}, **field), ask_nobody)
    assert answer.action == "decline"
    assert answer.notice.startswith("The MCP server far asked for a secret in a form")


@pytest.mark.parametrize(
    "message",
    [
        "Please type your GitHub password.",
        "Your API key:",
        "What is the token?",
        "Hello! We need your passphrase again.",
    ],
)
async def test_a_form_whose_message_asks_for_a_secret_is_refused_whatever_its_fields_are_called(message):
    elicitation = Elicitation(message=message, schema={"properties": {"value": {"type": "string"}}})
    answer = await answer_elicitation("files", elicitation, ask_nobody)
    assert answer.action == "decline"
    assert "asked for a secret in a form" in answer.notice


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("Your token was accepted. What is your name?", "string"),
        ("Never enter your password here. Which branch?", "string"),
        ("Do you need a new token?", "boolean"),
    ],
)
def test_a_message_that_only_speaks_of_secrets_is_no_request(message, kind):
    assert build_questions(Elicitation(message=message, schema={"properties": {"value": {"type": kind}}}))


@pytest.mark.parametrize("name", ["name", "spinner", "keyboard", "author", "pinned", "passenger"])
def test_a_harmless_field_is_no_secret(name):
    assert find_secret_field({name: {"type": "string", "description": "What it is called"}}) is None


@pytest.mark.parametrize(
    "field",
    [
        {"type": "boolean", "title": "Keep the password"},
        {"type": "string", "enum": ["token", "none"], "title": "Kind of token"},
        {"type": "integer", "description": "Your favourite number (do not give us your phone number, pin, or such)"},
    ],
)
def test_what_is_chosen_or_warned_of_is_no_secret(field):
    assert find_secret_field({"x": field}) is None


class Asked:
    """A user who gives these answers, one a time."""

    def __init__(self, *answers: tuple[QuestionAnswer, ...] | None) -> None:
        self.answers, self.shown = list(answers), list[tuple[str, tuple[Question, ...]]]()

    async def __call__(self, title: str, questions: tuple[Question, ...]) -> tuple[QuestionAnswer, ...] | None:
        self.shown.append((title, questions))
        return self.answers.pop(0)


async def test_what_does_not_fit_is_asked_again_with_what_is_wrong():
    user = Asked((typed("count", "many"),), (typed("count", "3"),))
    answer = await answer_elicitation("far", form(("count",), count={"type": "integer"}), user)
    assert answer == ElicitationAnswer(action="accept", content={"count": 3})
    assert user.shown[0][0] == "The MCP server far asks"
    assert user.shown[1][1][0].text.startswith("That is not valid: count has to be a whole number.")


@pytest.mark.parametrize(("given", "action"), [((), "decline"), (None, "cancel"), ((chosen("x", DECLINE),), "decline")])
async def test_a_dismissed_form_is_declined_and_one_that_nobody_saw_is_cancelled(given, action):
    answer = await answer_elicitation("far", form(x={"type": "string"}), Asked(given))
    assert (answer.action, answer.content) == (action, None)


async def test_a_form_without_fields_asks_for_a_yes():
    answer = await answer_elicitation("far", form(), Asked((chosen("done", "done"),)))
    assert answer == ElicitationAnswer(action="accept", content={})


async def test_a_page_is_shown_with_its_server_and_its_whole_host():
    elicitation = Elicitation(message="Log \x1b[31min", url="https://login.far.example:8443/a?b=c")
    user = Asked((chosen("page", "done"),))
    assert await answer_elicitation("far", elicitation, user) == ElicitationAnswer(action="accept")
    title, (question,) = user.shown[0]
    assert title == "The MCP server far asks"
    assert "a page of login.far.example:" in question.text
    assert "https://login.far.example:8443/a?b=c" in question.text
    assert "\x1b" not in question.text


@pytest.mark.parametrize("url", ["file:///etc/passwd", "https://good.example@evil.example/", "https://exämple.org/"])
async def test_a_page_whose_address_misleads_is_refused(url):
    answer = await answer_elicitation("far", Elicitation(message="", url=url), Asked())
    assert answer.action == "decline"
    assert "asked to open a page, which was refused" in answer.notice


SCHEMAS = st.dictionaries(
    st.sampled_from(["type", "enum", "oneOf", "items", "default", "minimum", "maxLength", "format", "minItems"]),
    st.one_of(
        st.none(),
        st.integers(),
        st.text(max_size=5),
        st.sampled_from(["string", "array", "integer", "boolean", "date"]),
        st.lists(st.one_of(st.text(max_size=3), st.fixed_dictionaries({"const": st.text(max_size=3)})), max_size=3),
        st.dictionaries(st.sampled_from(["enum", "anyOf"]), st.lists(st.text(max_size=3), max_size=3), max_size=2),
    ),
)


@given(SCHEMAS, st.text(max_size=5))
def test_any_form_at_all_is_shown_and_read_or_refused_with_words(field, text):
    elicitation = form(("x",), x=field)
    answers: dict[str, Any] | None = None
    with contextlib.suppress(ConfigError):
        assert build_questions(elicitation)[0].id == "x"
        answers = read_answers(elicitation.schema, [typed("x", text)])
    assert answers is None or set(answers) == {"x"}
