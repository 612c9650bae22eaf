"""`boxed`: a box of every tier, for every user."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator

import pytest
from _pytest.mark import ParameterSet

from core.sandbox.box import Tier
from tests.support.box_cases import Boxed, boxes, cases, place_of
from tests.support.box_tiers import NOT_PROMISED


def _leave_out(request: pytest.FixtureRequest, tier: Tier) -> None:
    """A tier that is known not to do what the test is about."""
    why = NOT_PROMISED[tier].get(request.node.originalname)
    if why is not None:
        pytest.skip(f"{tier}: {why}")


def _mark_cases() -> Iterator[ParameterSet]:
    """Both users have the strongest tier tried in every run; a weaker one is tried for one user, else it is slow."""
    users_by_tier: dict[Tier, int] = {}
    for tier, uid in cases():
        is_slow = tier is not Tier.NAMESPACES and users_by_tier.setdefault(tier, uid) != uid
        yield pytest.param((tier, uid), id=f"{tier}-{uid}", marks=[pytest.mark.slow] if is_slow else [])


@pytest.fixture(params=_mark_cases())
async def boxed(request: pytest.FixtureRequest) -> AsyncIterator[Boxed]:
    tier, uid = request.param
    _leave_out(request, tier)
    with place_of(uid) as root:
        case = Boxed(tier, uid, root)
        yield case
        await case.close()


@pytest.fixture(params=boxes())
async def own(request: pytest.FixtureRequest) -> AsyncIterator[Boxed]:
    """A box for the user that runs the tests: what has to be watched and steered while it runs."""
    _leave_out(request, request.param)
    with place_of(os.geteuid()) as root:
        case = Boxed(request.param, os.geteuid(), root)
        yield case
        await case.close()
