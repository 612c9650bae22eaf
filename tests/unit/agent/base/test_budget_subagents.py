"""What a subagent may is never more than the session above it may at that moment."""

from __future__ import annotations

import pytest

from core.agent.base.budget import DEFAULT_ACCESSES, LimitReached, SubagentLimits, TurnBudget
from core.config.settings import TurnLimits
from core.modes import Access, Mode, is_granted
from core.protocol.messages import Usage


@pytest.mark.parametrize("mode", list(Mode))
def test_m12_it_may_what_was_asked_for_and_its_parent_may_and_nothing_else(mode):
    leash = SubagentLimits(
        parent_grants=lambda access: is_granted(mode, access, is_contained=True), budget=TurnBudget(TurnLimits)
    )
    allowed = {access for access in Access if leash.is_allowed(access)}
    assert allowed == {access for access in DEFAULT_ACCESSES if is_granted(mode, access, is_contained=True)}
    assert not allowed & {Access.PLAN, Access.SPAWN, Access.PROBE}


@pytest.mark.parametrize(
    ("tools", "denied", "allowed"),
    [
        (None, set(), ["grep", "mcp__a__read", "mcp__a__write"]),
        (None, {"mcp__a__*"}, ["grep"]),
        ({"mcp__a__*"}, {"mcp__a__write"}, ["mcp__a__read"]),
        ({"grep", "mcp__a__read"}, set(), ["grep", "mcp__a__read"]),
    ],
)
def test_m12_tools_are_given_and_denied_by_their_names_and_by_those_of_servers(tools, denied, allowed):
    tool_names = None if tools is None else frozenset(tools)
    limits = SubagentLimits(
        parent_grants=lambda _: True, budget=TurnBudget(TurnLimits), tools=tool_names, denied=frozenset(denied)
    )
    known = ("grep", "mcp__a__read", "mcp__a__write")
    assert [name for name in known if limits.is_tool_allowed(name)] == allowed


def test_the_limits_of_a_turn_hold_for_all_that_works_for_it_together():
    whole = TurnBudget(lambda: TurnLimits(max_steps=3, max_tokens=100))
    one, two = TurnBudget(TurnLimits, whole), TurnBudget(TurnLimits, whole)
    assert [one.begin_step(), two.begin_step(), one.begin_step()] == [1, 1, 2]
    assert (whole.steps, one.steps) == (3, 2)
    with pytest.raises(LimitReached):
        two.check()
    tokens = TurnBudget(lambda: TurnLimits(max_tokens=100))
    TurnBudget(TurnLimits, tokens).add(Usage(prompt_tokens=60))
    TurnBudget(TurnLimits, tokens).add(Usage(prompt_tokens=60))
    with pytest.raises(LimitReached):
        TurnBudget(TurnLimits, tokens).check()
