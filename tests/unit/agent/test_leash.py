"""What a subagent may is never more than the session above it may at that moment."""

from __future__ import annotations

import pytest

from core.agent.leash import REQUESTED, Leash
from core.agent.limits import LimitReached, Spent
from core.config import Limits
from core.modes import Access, Mode, granted
from core.protocol.messages import Usage


@pytest.mark.parametrize("mode", list(Mode))
def test_m12_it_may_what_was_asked_for_and_its_parent_may_and_nothing_else(mode):
    leash = Leash(parent=lambda access: granted(mode, access, contained=True), spent=Spent(Limits))
    allowed = {access for access in Access if leash.allows(access)}
    assert allowed == {access for access in REQUESTED if granted(mode, access, contained=True)}
    assert not allowed & {Access.PLAN, Access.SPAWN, Access.PROBE, Access.EXTERNAL}


def test_the_limits_of_a_turn_hold_for_all_that_works_for_it_together():
    whole = Spent(lambda: Limits(max_steps=3, max_tokens=100))
    one, two = Spent(Limits, whole), Spent(Limits, whole)
    assert [one.begin_step(), two.begin_step(), one.begin_step()] == [1, 1, 2]
    assert (whole.steps, one.steps) == (3, 2)
    with pytest.raises(LimitReached):
        two.check()
    tokens = Spent(lambda: Limits(max_tokens=100))
    Spent(Limits, tokens).add(Usage(prompt_tokens=60))
    Spent(Limits, tokens).add(Usage(prompt_tokens=60))
    with pytest.raises(LimitReached):
        Spent(Limits, tokens).check()
