from __future__ import annotations

import pytest

from core.protocol import events as e
from tests.support import recorded
from tui.bridge import SessionRequest
from tui.chat.transcript import Greeting


def text(on, selector: str) -> str:
    return str(on.screen.query_one(selector).render())


async def test_an_empty_conversation_greets_and_the_first_prompt_takes_its_place(stage):
    async with stage(recorded.opening()) as on:
        assert on.screen.query_one(Greeting).display
        assert "nothing reaches your files until you accept it" in text(on, "#greeting")
        assert "ctrl+r" in text(on, "#greeting")
        await on.emit(e.TurnStarted(prompt="go", mode="agent", model="m"))
        assert not on.screen.query_one(Greeting).display
        assert any("go" in line for line in on.lines())


async def test_a_session_that_goes_on_is_not_greeted(stage):
    async with stage([*recorded.opening(), *recorded.turn()], wish=SessionRequest(resume="")) as on:
        assert not on.screen.query_one(Greeting).display


async def test_the_greeting_names_the_keys_in_force(stage):
    async with stage(recorded.opening(), keymap={"app.review": "f7"}) as on:
        assert "f7" in text(on, "#greeting")


@pytest.mark.parametrize("key", ["ctrl+r", "ctrl+t", "f6", "ctrl+o"])
async def test_a_pane_shows_the_way_out_when_it_has_the_focus_and_the_way_to_it_when_not(stage, key):
    async with stage(recorded.opening()) as on:
        await on.pilot.press(key)
        await on.until(lambda: on.screen.query("#side-hint") and "esc back" in text(on, "#side-hint"))
        await on.pilot.press("escape")
        await on.until(lambda: f"{key} goes here" in text(on, "#side-hint"))
        assert on.prompt.has_focus


async def test_the_prompt_says_what_can_be_done_in_the_conversation(stage):
    async with stage([*recorded.opening(), *recorded.turn()]) as on:
        before = str(on.prompt.placeholder)
        await on.pilot.press("ctrl+up")
        await on.until(lambda: "enter opens a row" in str(on.prompt.placeholder))
        await on.pilot.press("escape")
        await on.until(lambda: str(on.prompt.placeholder) == before)
        assert on.prompt.has_focus
