"""The background agents on the screen: a prompt that goes there, the pane, and what is done with one."""

from __future__ import annotations

from typing import Any

import pytest

from core.protocol import commands as c
from core.protocol import events as e
from core.protocol.events import BackgroundAgentInfo
from core.protocol.queries import BackgroundAnswer, BackgroundQuery
from tests.support import recorded
from tests.support.scripted_client import SESSION
from tui import roster
from tui.dialogs.pages import ConfirmDialog
from tui.roster import BackgroundList

NOW = 1_790_000_000_000
AGENTS = tuple(
    BackgroundAgentInfo(place="/home/ada/shop", created=NOW - age * 1000, **fields)
    for age, fields in (
        (5, {"id": "bga_4", "title": "Rename the tax module", "state": "queued"}),
        (
            95,
            {
                "id": "bga_3",
                "title": "Try the upgrade of flask",
                "state": "waiting",
                "waits_for": "pip install -U flask",
            },
        ),
        (
            900,
            {
                "id": "bga_2",
                "title": "Write the missing tests",
                "state": "done",
                "pending": 3,
                "cost": 0.31,
                "session": "ses_2",
                "message": "All 14 tests pass.",
            },
        ),
        (
            9000,
            {"id": "bga_1", "title": "Port to 3.13", "state": "failed", "message": "The repository can't be cloned."},
        ),
    )
)


@pytest.fixture(autouse=True)
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roster.time, "time", lambda: NOW / 1000)


@pytest.mark.parametrize("keys", [[*"& tidy the imports", "enter"], ["slash", *"background tidy the imports", "enter"]])
async def test_a_prompt_behind_an_ampersand_or_the_command_goes_to_the_background(stage, keys):
    async with stage(recorded.opening()) as on:
        await on.pilot.press(*("ampersand" if key == "&" else "space" if key == " " else key for key in keys))
        await on.until(lambda: on.sent(c.BackgroundStart))
        assert on.sent(c.BackgroundStart) == [c.BackgroundStart(session=SESSION, text="tidy the imports")]
        assert on.sent(c.TurnSubmit) == []


async def show(on: Any) -> BackgroundList:
    await on.pilot.press("shift+f9")
    await on.until(lambda: on.screen.query(BackgroundList))
    on.client.emit(e.BackgroundReported(agents=AGENTS))
    background_list: BackgroundList = on.screen.query_one(BackgroundList)
    await on.until(lambda: background_list.current is not None)
    background_list.focus()
    await on.until(lambda: background_list.has_focus)
    return background_list


@pytest.mark.parametrize("opens", ["enter", "o"])
async def test_one_is_stopped_pulled_opened_and_forgotten_by_its_keys(stage, opens):
    async with stage(recorded.opening()) as on:
        background_list = await show(on)
        while background_list.current is not None and background_list.current.id != "bga_3":
            await on.pilot.press("down")
        await on.pilot.press("x")
        await on.until(lambda: on.sent(c.BackgroundStop))
        assert on.sent(c.BackgroundStop)[0].id == "bga_3"
        await on.pilot.press("up", opens)
        await on.until(lambda: on.sent(c.BackgroundPull))
        assert on.sent(c.BackgroundPull)[0].id == "bga_2"
        await on.pilot.press("d")
        await on.until(lambda: isinstance(on.app.screen, ConfirmDialog))
        await on.pilot.press("escape")
        await on.until(lambda: on.app.screen is on.screen)
        assert on.sent(c.BackgroundDelete) == []
        await on.pilot.press("k", "delete")
        await on.until(lambda: on.sent(c.BackgroundDelete))
        assert on.sent(c.BackgroundDelete)[0].id == "bga_1"
        pulled = [
            BackgroundAgentInfo(**{**{n: getattr(agent, n) for n in agent.__struct_fields__}, "pulled": True})
            for agent in AGENTS
        ]
        on.client.emit(e.BackgroundReported(agents=tuple(pulled)))
        await on.pilot.press("j", opens)
        await on.until(lambda: on.sent(c.SessionResume))
        assert on.sent(c.SessionResume)[-1].session == "ses_2"


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40)], ids=str)
def test_the_pane_looks_as_it_did(looks, size):
    answers = {BackgroundQuery: BackgroundAnswer(agents=AGENTS)}
    events = [*recorded.opening(), e.Notice(level="info", message="In the background: Rename the tax module")]
    assert looks(events, size, keys=["slash", *"background", "enter"], answers=answers)
