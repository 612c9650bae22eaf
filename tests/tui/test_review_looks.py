from __future__ import annotations

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot

from tests.tui.review_case import CASES, PRICES, ReviewApp

WHY = "The file on disk was changed at lines 134–135 after this change was made."
CLASH = replace(PRICES, change=replace(PRICES.change, conflict=WHY, protected=True))
TORN = replace(
    CASES[3], lines=(*CASES[3].lines[:-1], replace(CASES[3].lines[-1], text="]", eol="none")), note="shown in part"
)


async def painted(pilot: Pilot[None]) -> None:
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()


async def split_at_third(pilot: Pilot[None]) -> None:
    await pilot.press("v", "j", "j")
    await painted(pilot)


async def one_accepted(pilot: Pilot[None]) -> None:
    await pilot.press("j", "a")
    await painted(pilot)


@pytest.mark.parametrize(
    ("diffs", "size", "before"),
    [
        pytest.param(CASES, (120, 40), painted, id="unified"),
        pytest.param(CASES, (120, 40), split_at_third, id="split"),
        pytest.param(CASES, (60, 16), painted, id="narrow"),
        pytest.param(CASES, (120, 40), one_accepted, id="accepting"),
        pytest.param((CLASH, TORN), (120, 40), painted, id="conflict"),
        pytest.param((), (120, 40), painted, id="empty"),
    ],
)
def test_the_review_looks_as_it_did(snap_compare, diffs, size, before):
    assert snap_compare(ReviewApp(diffs), terminal_size=size, run_before=before)
