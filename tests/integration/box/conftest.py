"""`boxed`: a box of every tier, for every user."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest

from tests.support.box_cases import Boxed, boxes, place_of, users


@pytest.fixture(params=[(tier, uid) for tier in boxes() for uid in users()], ids=lambda each: f"{each[0]}-{each[1]}")
async def boxed(request: pytest.FixtureRequest) -> AsyncIterator[Boxed]:
    tier, uid = request.param
    with place_of(uid) as root:
        case = Boxed(tier, uid, root)
        yield case
        await case.close()


@pytest.fixture(params=boxes())
async def own(request: pytest.FixtureRequest) -> AsyncIterator[Boxed]:
    """A box for the user that runs the tests: what has to be watched and steered while it runs."""
    with place_of(os.geteuid()) as root:
        case = Boxed(request.param, os.geteuid(), root)
        yield case
        await case.close()
