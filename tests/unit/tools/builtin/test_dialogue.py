"""ask_question: what is put to the user, what the model is told, and what it is refused for."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import ToolInputInvalid
from core.protocol.documents import Question, QuestionAnswer
from core.tools.arguments import build_parameters
from core.tools.base import ToolOutcome
from core.tools.builtin.dialogue import FEWEST, LONGEST_LABEL, LONGEST_TEXT, MOST
from core.tools.toolset import Toolset

TOOLS = Toolset()

AB = [{"id": "a", "label": "Alpha"}, {"id": "b", "label": "Beta", "recommended": True}]


class User:
    def __init__(self, *answers: QuestionAnswer, reachable: bool = True) -> None:
        self.answers, self.is_reachable = answers, reachable
        self.asked: tuple[Question, ...] = ()
        self.title = ""

    async def ask(self, questions, title=""):
        self.asked, self.title = questions, title
        return self.answers

    async def request_mode(self, mode: str, explanation: str) -> bool:
        raise NotImplementedError


async def asked(user: User, *questions: dict, **more: str) -> ToolOutcome:
    return await TOOLS.parse("ask_question", json.dumps({"questions": questions, **more})).run(user)


def question(**changed) -> dict:
    return {"id": "q", "prompt": "Which?", "options": AB, **changed}


async def test_answers_come_back_with_their_labels_and_the_user_s_own_words():
    user = User(QuestionAnswer(question="q", options=("b",), text="for now"), QuestionAnswer(question="q2", text="no"))
    outcome = await asked(user, question(header="Kind"), {"prompt": " More? ", "options": AB}, title=" T ")
    assert outcome.content == "q: Which?\n  -> b (Beta); for now\nq2: More?\n  -> no"
    assert user.title == "T"
    assert [
        (asked_question.header, asked_question.text, [o.recommended for o in asked_question.options])
        for asked_question in user.asked
    ] == [
        ("Kind", "Which?", [False, True]),
        ("", "More?", [False, True]),
    ]


async def test_an_option_without_an_id_gets_one_that_is_free():
    user = User()
    await asked(user, question(options=[{"label": "A"}, {"id": "1", "label": "B"}, {"label": "C"}]))
    assert [option.id for option in user.asked[0].options] == ["2", "1", "3"]


@pytest.mark.parametrize(
    ("reachable", "begin", "summary"),
    [(True, "The user did not answer.", "not answered"), (False, "Nobody can be asked", "nobody could be asked")],
)
async def test_without_an_answer_the_model_goes_on_with_what_it_recommended(reachable, begin, summary):
    outcome = await asked(User(reachable=reachable), question(), question(id="r", options=[{"label": "A"}, AB[0]]))
    assert outcome.content.startswith(begin)
    assert "the recommended option (q: b (Beta)), and with what you judge best for r" in outcome.content
    assert (outcome.summary, outcome.failed) == (summary, False)


BAD = {
    "no options": ({"options": []}, "Question 1 has no options; it needs 2 to 4"),
    "options left out": ({"options": None}, "options"),
    "one option": ({"options": AB[:1]}, "Question 1 has one option; it needs 2 to 4"),
    "nine options": ({"options": [{"label": str(n)} for n in range(9)]}, "Question 1 has 9 options"),
    "two recommended": ({"options": [{**o, "recommended": True} for o in AB]}, "recommends more than one option"),
    "no text": ({"prompt": " \n\u200b\u202e"}, "Question 1 has an empty prompt"),
    "no label": ({"options": [*AB, {"label": "\t"}]}, "Option 3 of question 1 has an empty label"),
    "two labels alike": ({"options": [*AB, {"label": " aLpha\x07 "}]}, "two options that read 'alpha'"),
    "two ids alike": ({"options": [*AB, {"id": "a", "label": "C"}]}, "two options with the id 'a'"),
    "a long text": ({"prompt": "x" * (LONGEST_TEXT + 1)}, "a prompt of 2,001 characters; at most 2,000"),
    "a long label": ({"options": [AB[0], {"label": "x" * (LONGEST_LABEL + 1)}]}, "a label of 301 characters"),
    "an unknown field": ({"options": [{**AB[0], "why": "x"}, AB[1]]}, "unknown field `why`"),
}


@pytest.mark.parametrize("name", BAD)
async def test_what_is_asked_badly_goes_back_to_the_model_and_bothers_nobody(name):
    changed, message = BAD[name]
    user = User()
    with pytest.raises(ToolInputInvalid) as refused:
        await asked(user, question(**changed))
    assert message in refused.value.format_with_hint()
    assert user.asked == ()


async def test_doubled_ids_of_questions_are_refused_and_several_may_be_recommended_where_several_may_hold():
    with pytest.raises(ToolInputInvalid, match="have the id 'q'"):
        await asked(User(), question(), question())
    both = [{**option, "recommended": True} for option in AB]
    await asked(user := User(), question(allow_multiple=True, options=both))
    assert [option.recommended for option in user.asked[0].options] == [True, True]


def test_the_schema_tells_the_model_how_many_options_there_are():
    options = build_parameters(type(TOOLS.parse("ask_question", '{"questions": [{"prompt": "?", "options": []}]}')))
    options = options["properties"]["questions"]["items"]["properties"]["options"]
    assert (options["minItems"], options["maxItems"]) == (FEWEST, MOST)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
LABEL = st.text(max_size=12) | JUNK
OPTION = st.fixed_dictionaries(
    {}, optional={"id": st.sampled_from(["", "1", "a"]) | JUNK, "label": LABEL, "recommended": st.booleans() | JUNK}
)
OPTIONS = st.lists(OPTION | st.fixed_dictionaries({"label": st.text(min_size=1, max_size=9)}), max_size=6) | JUNK
QUESTION = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from(["", "q1", "q2"]) | JUNK,
        "prompt": LABEL,
        "question": LABEL,
        "header": LABEL,
        "options": OPTIONS,
        "allow_multiple": st.booleans() | JUNK,
    },
)
GOOD = st.fixed_dictionaries({"prompt": st.just("Which?"), "options": st.just(AB) | OPTIONS})
CALL = st.fixed_dictionaries({"questions": st.lists(QUESTION | GOOD, max_size=4) | JUNK}, optional={"title": LABEL})


@settings(max_examples=300, deadline=None)
@given(CALL.map(json.dumps) | JUNK.map(json.dumps) | st.text(max_size=30))
def test_whatever_is_sent_is_either_put_well_or_refused_in_words(arguments):
    try:
        questions = TOOLS.parse("ask_question", arguments).check_questions()
    except ToolInputInvalid:
        return
    assert len({question.id for question in questions}) == len(questions) > 0
    for question in questions:
        assert FEWEST <= len(question.options) <= MOST
        assert len({option.id for option in question.options}) == len(question.options)
        assert all(option.label.strip() and option.id for option in question.options)
        assert question.text.strip()
        assert question.allow_multiple or sum(option.recommended for option in question.options) <= 1
