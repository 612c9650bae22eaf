from __future__ import annotations

import pytest

from core.protocol import documents as d
from core.protocol import events as e
from core.protocol.queries import SettingsAnswer, SettingsQuery
from tests.support import recorded
from tests.tui.review_case import PRICES
from tui.screens.controllers.attention import Announcements
from tui.widgets.status_bar import StatusBar

PLAIN = {SettingsQuery: SettingsAnswer(plain=True, colors="none")}


def shown(on) -> str:
    """All that is on the screen, as the terminal gets it."""
    return "\n".join("".join(part.text for part in strip) for strip in on.app.screen._compositor.render_strips())


def announced(on) -> list[str]:
    return [line for widget in on.screen.query(Announcements) for line in widget.lines]


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40), (200, 60)])
async def test_a_screen_that_is_read_out_has_no_frames_and_signs_and_one_pane(stage, size):
    async with stage([*recorded.opening(), recorded.turn()[0], *recorded.reading()], size=size, answers=PLAIN) as on:
        await on.until(lambda: on.app.appearance.is_plain)
        await on.emit(e.ChangeProposed(change=PRICES.change))
        await on.until(lambda: on.screen.has_class("-narrow"))
        await on.pilot.press("ctrl+r")
        await on.until(lambda: not on.screen.query_one("#centre").display)
        assert on.app.screen.size.width == size[0]
        assert {sign for sign in shown(on) if not sign.isascii()} == set()


async def test_what_happens_is_said_as_lines(stage):
    async with stage(recorded.opening(), answers=PLAIN) as on:
        await on.until(lambda: on.app.appearance.is_plain)
        await on.emit(e.TurnStarted(prompt="go", mode="agent", model="m"))
        await on.until(lambda: announced(on) == ["The agent is working."])
        assert on.screen.query_one(StatusBar)._timer is None
        asked = d.Question(id="w", text="Which\x1b]0;x\x07 way?", options=(d.Option(id="l", label="Left"),))
        await on.emit(e.QuestionAsked(id="q", call="c", questions=(asked,)))
        await on.until(lambda: "Asks: Which␛]0;x␇ way?." in announced(on))
        await on.emit(e.QuestionAnswered(id="q"), e.TurnFinished(reason="completed"))
        await on.until(lambda: announced(on)[-1] == "Done.")
        assert "Done." in shown(on)


async def test_a_screen_that_is_looked_at_announces_nothing(stage):
    async with stage(recorded.opening()) as on:
        await on.emit(e.TurnStarted(prompt="go", mode="agent", model="m"), e.TurnFinished(reason="completed"))
        assert not on.screen.query(Announcements)
