"""Limits and policy on the screen: what they are, and how they are changed."""

from __future__ import annotations

import pytest

from core.protocol import commands as c
from core.protocol import events as e
from tests.support import recorded
from tui.chat.prompt import COMMAND_PLACEHOLDER
from tui.dialogs.picker import PickerDialog
from tui.screens.controllers.turn import format_limits
from tui.widgets.status_bar import StatusBar

BY_HAND = [*recorded.opening(), e.PolicyChanged(policy="human", by="user")]


def bar(on) -> str:
    return str(on.screen.query_one(StatusBar).render())


async def typed(on, text: str) -> None:
    on.prompt.text = text
    on.prompt.move_cursor(on.prompt.document.end)
    await on.pilot.press("enter")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("/limits steps 50", c.LimitsSet(max_steps=50)),
        ("/limits cost $2.50", c.LimitsSet(max_cost=2.5)),
        ("/limits tokens 200,000 steps=9", c.LimitsSet(max_tokens=200_000, max_steps=9)),
        ("/limits cost off", c.LimitsSet(max_cost=0.0)),
    ],
)
async def test_limits_are_changed_by_name(stage, text, wanted):
    async with stage(recorded.opening()) as on:
        await typed(on, text)
        await on.until(lambda: on.sent(c.LimitsSet))
        [sent] = on.sent(c.LimitsSet)
        assert (sent.max_steps, sent.max_cost, sent.max_tokens) == (
            wanted.max_steps,
            wanted.max_cost,
            wanted.max_tokens,
        )


@pytest.mark.parametrize("text", ["/limits many", "/limits steps", "/limits steps 5 wheels 4"])
async def test_what_is_no_limit_is_said_with_what_is_one(stage, text):
    async with stage(recorded.opening()) as on:
        await typed(on, text)
        await on.until(lambda: on.app._notifications)
        assert on.sent(c.LimitsSet) == []
        assert any("/limits steps 50" in notification.message for notification in on.app._notifications)


async def test_the_limits_in_force_are_told_and_the_status_line_counts_towards_them(stage):
    start = [e.TurnStarted(prompt="go", mode="agent", model="m"), e.StepStarted(step=2)]
    async with stage([*recorded.opening(), *start]) as on:
        await on.emit(e.LimitsChanged(max_steps=20, max_cost=2.0, by="user"))
        await on.emit(e.StepFinished(step=2, usage=recorded.Usage(prompt_tokens=10, cost=0.25)))
        assert "of $2.00" in bar(on)
        assert " step 2 of 20" in bar(on)
        await typed(on, "/limits")
        await on.until(lambda: on.app._notifications)
        assert format_limits(on.screen.state.limits) == "Limits of a turn: 20 steps, $2.00, any number of tokens."


async def test_a_policy_is_chosen_by_name_or_from_a_list(stage):
    async with stage(recorded.opening()) as on:
        await typed(on, "/policy yolo")
        await on.until(lambda: on.sent(c.PolicySet))
        assert on.sent(c.PolicySet)[0].policy == "auto"
        await typed(on, "/policy")
        await on.until(lambda: isinstance(on.app.screen, PickerDialog))
        await on.pilot.press(*"human", "enter")
        await on.until(lambda: len(on.sent(c.PolicySet)) == 2)
        assert on.sent(c.PolicySet)[1].policy == "human"


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 16)])
async def test_where_the_user_types_the_commands_the_prompt_is_a_command_line_and_says_so(stage, size):
    async with stage(BY_HAND, size=size) as on:
        assert str(on.prompt.placeholder) == COMMAND_PLACEHOLDER
        assert "you type commands" in bar(on)
        await typed(on, "pytest -q")
        await on.until(lambda: on.sent(c.CommandRun))
        assert (on.sent(c.CommandRun)[0].command, on.sent(c.TurnSubmit)) == ("pytest -q", [])


async def test_a_question_mark_asks_the_agent_all_the_same(stage):
    async with stage(BY_HAND) as on:
        await typed(on, "? why does it fail")
        await on.until(lambda: on.sent(c.TurnSubmit))
        [sent] = on.sent(c.TurnSubmit)
        assert (sent.text, sent.anyway, on.sent(c.CommandRun)) == ("why does it fail", True, [])


async def test_elsewhere_a_question_mark_is_a_part_of_the_prompt(stage):
    async with stage(recorded.opening()) as on:
        await typed(on, "?x")
        await on.until(lambda: on.sent(c.TurnSubmit))
        assert (on.sent(c.TurnSubmit)[0].text, on.sent(c.TurnSubmit)[0].anyway) == ("?x", False)


async def test_while_a_turn_runs_what_is_typed_is_for_it(stage):
    async with stage([*BY_HAND, e.TurnStarted(prompt="go", mode="agent", model="m")]) as on:
        await typed(on, "rather not")
        await on.until(lambda: on.sent(c.TurnSteer))
        assert on.sent(c.CommandRun) == []
