from __future__ import annotations

import pytest
from textual.widgets import OptionList

from core.engine.shared.box import build_box_event
from core.protocol import events as e
from core.protocol import queries as q
from core.sandbox.box import Tier
from tests.support import recorded
from tests.tui.test_review import text_of
from tui.bridge import SessionRequest
from tui.chat.transcript import Greeting
from tui.review.diff.view import DiffView


def text(on, selector: str) -> str:
    return str(on.screen.query_one(selector).render())


async def test_an_empty_conversation_greets_and_the_first_prompt_takes_its_place(stage):
    async with stage(recorded.opening()) as on:
        assert on.screen.query_one(Greeting).display
        assert "Your files are untouched until you accept." in text(on, "#greeting")
        assert "ctrl+r" in text(on, "#greeting")
        await on.emit(e.TurnStarted(prompt="go", mode="agent", model="m"))
        assert not on.screen.query_one(Greeting).display
        assert any("go" in line for line in on.lines())


async def test_without_a_review_no_screen_promises_one(stage):
    events = [e.SessionResumed(accepts_at_once=True), build_box_event(Tier.IN_PLACE)]
    async with stage([*recorded.opening(), *events]) as on:
        await on.until(lambda: "written to your files at once" in text(on, "#greeting"))
        assert "untouched" not in text(on, "#greeting")
        await on.pilot.press("ctrl+r")
        await on.until(lambda: on.screen.query(DiffView))
        await on.until(lambda: "written to your files at once" in text_of(on.screen.query_one(DiffView)))
        assert "untouched" not in text_of(on.screen.query_one(DiffView))
        await on.pilot.press("ctrl+full_stop")
        await on.until(lambda: type(on.app.screen).__name__ == "PickerDialog")
        options = [str(option.prompt) for option in on.app.screen.query_one(OptionList).options]
        note = "edits are written to your files at once, commands run in the project itself"
        assert sum(option.endswith(note) for option in options) == 1


FAILING = (
    e.Notice(level="warning", message="The MCP server github does not start: npx: not found.", hint="/mcp shows it."),
    e.ErrorRaised(code="x", message="ui.theme: there is no theme 'nope'."),
)


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40)])
async def test_the_start_page_is_the_same_whatever_is_told_and_notices_stand_on_it(stage, size):
    async with stage([*recorded.opening(), *FAILING], size=size) as on:
        await on.all_shown()
        page_text = " ".join(text(on, "#greeting").split())
        assert on.screen.query_one(Greeting).display
        for words in ("Say what you want done", "npx: not found. /mcp shows it.", "no theme 'nope'", "ctrl+r"):
            assert words in page_text
        await on.emit(e.TurnStarted(prompt="go", mode="agent", model="m"))
        assert not on.screen.query_one(Greeting).display
        assert [block.kind for block in on.screen.state.blocks] == ["notice", "error_raised", "prompt"]


async def test_more_notices_than_there_is_room_for_are_counted(stage):
    notices = [e.Notice(level="info", message=f"Notice {number}.") for number in range(5)]
    async with stage([*recorded.opening(), *notices]) as on:
        await on.all_shown()
        assert "Notice 2." in text(on, "#greeting")
        assert "and 2 more" in text(on, "#greeting")
        assert "Notice 3." not in text(on, "#greeting")


async def test_a_part_of_a_repository_is_told_with_the_line_that_opens_all_of_it(stage, monkeypatch):
    monkeypatch.setattr("sys.argv", ["/opt/agent-tui"])
    answers = {q.SettingsQuery: q.SettingsAnswer(above="/home/u/shop")}
    async with stage(recorded.opening(), answers=answers) as on:
        await on.until(lambda: "part of the repository /home/u/shop" in text(on, "#greeting"))
        assert "/opt/agent-tui /home/u/shop" in text(on, "#greeting")


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
        await on.until(lambda: f"{key} to focus" in text(on, "#side-hint"))
        assert on.prompt.has_focus


async def test_the_prompt_says_what_can_be_done_in_the_conversation(stage):
    async with stage([*recorded.opening(), *recorded.turn()]) as on:
        before = str(on.prompt.placeholder)
        await on.pilot.press("ctrl+up")
        await on.until(lambda: "enter open" in str(on.prompt.placeholder))
        await on.pilot.press("escape")
        await on.until(lambda: str(on.prompt.placeholder) == before)
        assert on.prompt.has_focus
