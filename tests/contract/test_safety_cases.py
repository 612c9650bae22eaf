"""Every case that blocks a release has a test, and what the box has to hold has one on every tier."""

from __future__ import annotations

from functools import cache

import pytest

from core.sandbox.tiers import ORDER
from tests.contract.source_tree import Function, modules
from tests.support.box_tiers import NOT_PROMISED
from tests.support.safety_cases import BLOCKING, EVERY_TIER


@cache
def cases_in(*tops: str) -> list[Function]:
    return [each for module in modules(*tops) for each in module.functions if each.name.startswith("test_")]


def covers(function: Function, case: str) -> bool:
    return case in function.name.split("_")


def tiers_of(function: Function) -> set[str]:
    """The tiers that a test of the box runs on, as root and as an ordinary user where the machine has both."""
    taken = {argument.arg for argument in function.args.args}
    if "locked" in taken:
        return {"T3"}
    return {tier for tier in ORDER if function.name not in NOT_PROMISED[tier]} if "boxed" in taken else set()


@pytest.mark.parametrize("case", BLOCKING)
def test_a_case_that_blocks_a_release_has_a_test(case):
    assert [function.name for function in cases_in("tests") if covers(function, case)], BLOCKING[case]


@pytest.mark.parametrize("case", sorted(EVERY_TIER))
def test_what_the_box_has_to_hold_is_tried_on_every_tier(case):
    tried = [tiers_of(function) for function in cases_in("tests/integration/box") if covers(function, case)]
    assert set(ORDER) - set().union(*tried) == set(), BLOCKING[case]


def test_what_is_tried_on_every_tier_is_on_the_list():
    assert set(BLOCKING) >= EVERY_TIER
