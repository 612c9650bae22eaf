"""A row after an absence: by the focus of the terminal, and when a session is resumed much later."""

from __future__ import annotations

import pytest

from core.protocol import events as ev
from core.protocol.queries import SettingsAnswer, SettingsQuery
from core.protocol.queries.sessions import NotificationSettings
from tests.support import recorded
from tests.support.scripted_client import CLOCK
from tui.state.view import Resumption

MINUTE = 60_000
DONE = ev.TurnFinished(reason="done", duration_ms=20 * MINUTE)
ADOPTED = {SettingsQuery: SettingsAnswer()}
CLOCK_OF_SCREEN = "tui.screens.controllers.attention.read_clock"


def recaps(on) -> list[str]:
    return [block.text for block in on.screen.state.blocks if block.key.startswith("recap:")]


async def leave(on, monkeypatch, minutes: int, *meanwhile: ev.AnyEvent, begin: int = 0) -> None:
    """The window loses the focus, something happens, and so many minutes later it has the focus again."""
    monkeypatch.setattr(CLOCK_OF_SCREEN, lambda: CLOCK + begin * MINUTE)
    on.app.app_focus = False
    await on.emit(*meanwhile)
    monkeypatch.setattr(CLOCK_OF_SCREEN, lambda: CLOCK + (begin + minutes) * MINUTE)
    on.app.app_focus = True
    await on.pilot.pause()


async def test_a_turn_that_ended_meanwhile_is_told_once_in_a_row(stage, monkeypatch):
    async with stage([*recorded.opening(), *recorded.turn()[:1]], answers=ADOPTED) as on:
        await on.until(lambda: on.screen.controllers.attention._is_adopted)
        await leave(on, monkeypatch, 25, DONE)
        assert recaps(on) == [
            'You were away for 25 minutes. You asked last: "Why is the total of an invoice one cent off?" (done).'
        ]
        await on.until(lambda: any("You were away for 25 minutes" in line for line in on.lines()))
        await leave(on, monkeypatch, 50, begin=30)
        assert len(recaps(on)) == 1


@pytest.mark.parametrize(("minutes", "meanwhile"), [(4, (DONE,)), (60, ())])
async def test_a_short_absence_and_one_without_news_are_not_told(stage, monkeypatch, minutes, meanwhile):
    async with stage([*recorded.opening(), *recorded.turn()[:1]], answers=ADOPTED) as on:
        await on.until(lambda: on.screen.controllers.attention._is_adopted)
        await leave(on, monkeypatch, minutes, *meanwhile)
        assert recaps(on) == []


async def test_the_user_can_turn_it_off(stage, monkeypatch):
    settings = SettingsAnswer(notify=NotificationSettings(recap=0))
    async with stage([*recorded.opening(), *recorded.turn()[:1]], answers={SettingsQuery: settings}) as on:
        await on.until(lambda: on.screen.controllers.attention.settings.recap == 0)
        await leave(on, monkeypatch, 25, DONE)
        assert recaps(on) == []


@pytest.mark.parametrize(("hours", "told"), [(3, 0), (49, 1)])
async def test_a_session_that_is_resumed_much_later_is_told_of(stage, monkeypatch, hours, told):
    async with stage([*recorded.opening(), *recorded.turn()[:1], DONE], answers=ADOPTED) as on:
        await on.until(lambda: on.screen.controllers.attention._is_adopted)
        at = CLOCK + hours * 60 * MINUTE
        monkeypatch.setattr(CLOCK_OF_SCREEN, lambda: at)
        on.screen.state.resumed = Resumption(at, hours * 60 * MINUTE)
        on.screen.controllers.attention.recap_resumption()
        on.screen.controllers.attention.recap_resumption()
        await on.pilot.pause()
        assert len(recaps(on)) == told
        assert all(text.startswith("Last used 2 days ago. You asked last:") for text in recaps(on))
