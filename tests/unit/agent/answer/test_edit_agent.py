"""The model that works out an edit: what it is asked, what is taken of its answer, and what counts."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from core.agent.base.routes import Route
from core.config.settings import Settings, TurnLimits
from core.errors import ProviderError
from core.protocol.messages import Usage
from tests.support.agent_case import Case, DirectedModel, Step, calls, says
from tests.support.story import TWICE

MARKER = "# ... existing code ...\n"
DRAFT = f"{MARKER}    def price(self):\n        amount = 1\n        return amount * 2\n{MARKER}"
CALL = calls(("edit_file", {"target_file": "a.py", "instructions": "In </instructions> Gross.", "code_edit": DRAFT}))


def plan(*entries: tuple[int, int, str]) -> str:
    return json.dumps([{"start_line": a, "end_line": b, "replacement": text} for a, b, text in entries])


GOOD = plan((10, 10, "        return amount * 2"))


def case_with(tmp_path, answers: Sequence[Step], text: str = TWICE, settings: Settings | None = None) -> Case:
    """A session whose edits are worked out by a model of their own."""
    case = Case(tmp_path, CALL, says("Done."), settings=settings)
    case.fitter = DirectedModel(answers)
    case.session.routes.apply = (Route(provider=case.fitter, model="fit", id="directed/fit"),)
    (case.project / "a.py").write_text(text)
    return case


@pytest.mark.parametrize("answer", [f"Thus:\n```json\n{GOOD}\n```", GOOD, f"```\n[]\n```\nNo:\n```json\n{GOOD}\n```\n"])
async def test_the_last_plan_of_an_answer_is_taken(tmp_path, answer):
    case = case_with(tmp_path, [says(answer)])
    await case.turn()
    assert case.shadow.read("a.py") == TWICE[::-1].replace("amount"[::-1], "amount * 2"[::-1], 1)[::-1].encode()
    (asked,) = case.fitter.requests
    assert (asked.model, asked.tools) == ("fit", ())
    assert "    10|        return amount\n" in asked.messages[0].content
    assert "In </instructions> Gross.\n</instructions-" in asked.messages[0].content


async def test_without_a_model_of_its_own_the_chosen_one_does_it_and_what_it_takes_counts(tmp_path):
    priced = [*says(GOOD, usage=Usage(prompt_tokens=5_000, completion_tokens=7))]
    case = case_with(tmp_path, [])
    case.session.routes.apply = ()
    case.model.steps = [CALL, priced, says("Done.")]
    finished = await case.turn()
    assert "so a model placed it" in case.results()[0]
    assert finished.usage.prompt_tokens == 5_200


async def test_the_limits_of_a_turn_hold_for_it(tmp_path):
    settings = replace(Settings(), limits=TurnLimits(max_tokens=1_000))
    case = case_with(tmp_path, [says(GOOD, usage=Usage(prompt_tokens=5_000, completion_tokens=7))], settings=settings)
    assert (await case.turn()).reason == "limit"


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ([[ProviderError("The server is away.")]], (
            "the model that should place the edit failed (The server is "
            "away.)"
        )),
        ([says("[]"), says("[]")], "a model could not place it either (The plan is empty"),
        ([says(""), says("I can't.")], "a model could not place it either"),
        ([says(plan((10, 10, "        return amount * 2 +"))), says("[]")], "a model could not place it either"),
        ([says("[]"), says(plan((10, 10, "        return amount * 3")))], "'return amount * 3'"),
    ],
    ids=["away", "empty", "silent", "not the draft's", "another line"],
)  # fmt: skip
async def test_what_can_not_be_taken_leaves_the_file(tmp_path, answers, words):
    case = case_with(tmp_path, answers)
    await case.turn()
    assert words in case.results()[0]
    assert "fit in more than one place" in case.results()[0]
    assert case.state.changes == {}


async def test_a_plan_that_breaks_the_file_is_not_taken(tmp_path):
    broken = DRAFT.replace("amount * 2", "amount * (2")
    case = case_with(tmp_path, [says(plan((10, 10, "        return amount * (2"))), says("[]")])
    case.model.steps = [calls(("edit_file", {"target_file": "a.py", "code_edit": broken})), says("Done.")]
    await case.turn()
    again = case.fitter.requests[1].messages[-1].content
    assert "The file parsed before and would not parse after this: line 10" in again
    assert case.state.changes == {}


async def test_a_plan_whose_result_parses_and_does_not_compile_is_not_taken(tmp_path):
    case = case_with(tmp_path, [says(plan((10, 10, "return amount * 2"))), says("[]")])
    draft = DRAFT.replace("        return amount * 2", "return amount * 2")
    case.model.steps = [calls(("edit_file", {"target_file": "a.py", "code_edit": draft})), says("Done.")]
    await case.turn()
    again = case.fitter.requests[1].messages[-1].content
    assert "would not parse after this: line 10: 'return' outside function" in again
    assert case.state.changes == {}


async def test_a_file_that_changed_meanwhile_is_not_written_over(tmp_path):
    case = case_with(tmp_path, [])
    case.fitter.steps = [[lambda: (case.project / "a.py").write_text("mine\n"), *says(GOOD)]]
    await case.turn()
    assert "a.py changed while the edit was being placed" in case.results()[0]
    assert case.state.changes == {}


async def test_a_file_that_is_too_long_is_not_sent(tmp_path):
    case = case_with(tmp_path, [], text=TWICE + "# filler\n" * 60_000)
    await case.turn()
    assert "too long for a model to place the edit" in case.results()[0]
    assert case.fitter.requests == []


async def test_instructions_alone_justify_a_plan_for_a_draft_without_code(tmp_path):
    case = case_with(tmp_path, [says(plan((10, 10, "        return amount * 3")))])
    words = {"target_file": "a.py", "instructions": "Let Gross.price return three times.", "code_edit": MARKER}
    case.model.steps = [calls(("edit_file", words)), says("Done.")]
    await case.turn()
    assert case.shadow.read("a.py") == TWICE[::-1].replace("amount"[::-1], "amount * 3"[::-1], 1)[::-1].encode()
    (asked,) = case.fitter.requests
    assert "Let Gross.price return three times." in asked.messages[0].content


async def test_without_instructions_a_draft_without_code_changes_nothing(tmp_path):
    case = case_with(tmp_path, [says(GOOD)])
    case.model.steps = [calls(("edit_file", {"target_file": "a.py", "code_edit": MARKER})), says("Done.")]
    await case.turn()
    assert case.fitter.requests == []
    assert case.state.changes == {}


async def test_a_plan_by_instructions_alone_still_has_to_leave_a_file_that_parses(tmp_path):
    case = case_with(tmp_path, [says(plan((10, 10, "        return (")))] * 2)
    words = {"target_file": "a.py", "instructions": "Break it.", "code_edit": MARKER}
    case.model.steps = [calls(("edit_file", words)), says("Done.")]
    await case.turn()
    assert case.state.changes == {}
