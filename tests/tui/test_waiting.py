"""While a model call waits for its next attempt: why, for how long, and that it can be stopped."""

from __future__ import annotations

import pytest

from core.protocol import commands as c
from core.protocol import events as e
from tests.support import recorded
from tui.widgets.status_bar import StatusBar

RUNS = [*recorded.opening(), e.TurnStarted(prompt="go", mode="agent", model="m"), e.StepStarted(step=1)]
BUSY = e.StepRetried(
    step=1, attempt=2, delay_ms=70_000, message="OpenAI (gpt-9) is overloaded (529).", code="overloaded"
)


def bar(on) -> str:
    return str(on.screen.query_one(StatusBar).render())


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 16)])
async def test_a_wait_counts_down_and_says_why_and_how_to_stop_it(stage, monkeypatch, size):
    now = [100.0]
    monkeypatch.setattr("tui.widgets.status_bar.monotonic", lambda: now[0])
    async with stage(RUNS, size=size) as on:
        await on.emit(BUSY)
        assert "overloaded: retry in 70 s · Esc to stop" in bar(on)
        now[0] += 58.5
        assert "overloaded: retry in 12 s · Esc to stop" in bar(on)
        now[0] += 12
        assert "again in" not in bar(on)


async def test_esc_ends_a_wait_at_once(stage):
    async with stage(RUNS) as on:
        await on.emit(BUSY)
        await on.pilot.press("escape")
        await on.until(lambda: on.sent(c.TurnInterrupt))
        await on.emit(e.TurnFinished(reason="interrupted"))
        assert "again in" not in bar(on)


async def test_the_key_that_stops_is_the_one_that_was_chosen_for_it(stage):
    async with stage(RUNS, keymap={"app.interrupt": "ctrl+x"}) as on:
        await on.emit(BUSY)
        assert "· Ctrl+x to stop" in bar(on)
