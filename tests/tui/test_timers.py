from __future__ import annotations

import asyncio
import re
from itertools import count
from pathlib import Path

import pytest
import textual.timer
from textual.app import App

import tui
from core.protocol import commands as c
from tests.support import recorded
from tui.timers import start_timer

SHORT = 0.002


@pytest.fixture
def kept_from_the_processor(monkeypatch):
    """A timer that runs once sees a second pass between two looks at the clock, as if another process had run."""
    get_time, lost_seconds = textual.timer._time.get_time, count()

    def leap() -> float:
        task = asyncio.current_task()
        is_single = task is not None and task.get_name().startswith("set_timer#")
        return get_time() + (next(lost_seconds) if is_single else 0)

    monkeypatch.setattr("textual.timer._time.get_time", leap)


async def test_a_timer_runs_although_its_moment_has_passed_before_it_waits(kept_from_the_processor):
    app: App[None] = App()
    async with app.run_test() as pilot:
        ended = asyncio.Event()
        start_timer(app, SHORT, ended.set)
        async with asyncio.timeout(50):
            await ended.wait()
        assert ended.is_set()
        await pilot.pause()


async def test_one_of_textual_is_still_lost_then(kept_from_the_processor):
    app: App[None] = App()
    async with app.run_test():
        ended = asyncio.Event()
        timer = app.set_timer(SHORT, ended.set)
        assert timer._task is not None
        await timer._task
        assert not ended.is_set()  # else `start_timer` is no longer needed


async def test_a_prompt_is_sent_by_a_process_that_is_kept_from_the_processor(stage, kept_from_the_processor):
    async with stage(recorded.opening()) as on:
        await on.pilot.press("g", "o", "enter")
        await on.until(lambda: [command.text for command in on.sent(c.TurnSubmit)] == ["go"])
        assert on.prompt.text == ""


def test_no_other_module_starts_a_timer_that_can_be_lost():
    modules = Path(tui.__file__).parent.rglob("*.py")
    users = [path.name for path in modules if re.search(r"\.set_timer\(", path.read_text(encoding="utf-8"))]
    assert users == ["timers.py"]
