from __future__ import annotations

import pytest
from msgspec.structs import replace
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import OptionList

from core.protocol.queries import SessionInfo
from tests.tui.panes_case import NOW, SESSIONS
from tui.quantities import format_age
from tui.sessions.picker import SessionChoice, SessionPicker

NOTHING_YET = "nothing yet"


class PickerApp(App[None]):
    def __init__(self, sessions: tuple[SessionInfo, ...] = SESSIONS) -> None:
        super().__init__()
        self.sessions = sessions
        self.chosen: str | None = NOTHING_YET

    def on_mount(self) -> None:
        self.push_screen(SessionPicker(self.sessions, now=NOW), self.take)

    def take(self, chosen: SessionChoice | None) -> None:
        self.chosen = chosen.session if chosen is not None else None


async def settle(pilot: Pilot[None], *keys: str) -> list[str]:
    await pilot.pause()
    await pilot.press(*keys)
    await pilot.pause()
    option_lists = pilot.app.screen.query(OptionList)
    return [str(option.prompt) for option in option_lists.first().options] if option_lists else []


async def test_sessions_show_when_they_were_and_what_waits():
    async with PickerApp().run_test(size=(100, 30)) as pilot:
        first, second, third, fourth = await settle(pilot)
        assert "2 minutes ago · 4 turns" in first
        assert "3 to review" in first
        assert "open elsewhere" in second
        assert third.startswith("untitled")
        assert "the log can't be read" in fourth


async def test_the_session_of_this_window_is_not_called_open_in_another():
    app: App[None] = App()
    async with app.run_test(size=(100, 30)) as pilot:
        app.push_screen(SessionPicker(SESSIONS, now=NOW, current=SESSIONS[1].id))
        rows = await settle(pilot)
        assert "this session" in rows[1]
        assert not any("open elsewhere" in row for row in rows)


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        (["enter"], "s1"),
        (["down", "enter"], "s3"),
        (["down", "up", "enter"], "s1"),
        (["escape"], None),
        ([*"demo", "enter"], "s3"),
    ],
)
async def test_keys_choose_what_can_be_opened(keys, chosen):
    app = PickerApp()
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot, *keys)
        assert app.chosen == chosen


async def test_words_narrow_the_list_and_nothing_found_is_said():
    app = PickerApp()
    async with app.run_test(size=(100, 30)) as pilot:
        assert len(await settle(pilot, *"slow index")) == 1
        await settle(pilot, "enter")
        assert app.chosen == NOTHING_YET
        assert await settle(pilot, *"zzz", "enter") == []
        assert "No session matches" in app.screen.query_one(".sessions--none").render().plain


async def test_a_click_chooses():
    app = PickerApp()
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        await pilot.click(OptionList, offset=(4, 0))
        await pilot.pause()
        assert app.chosen == "s1"


async def test_hostile_titles_show_as_text_t1():
    bad = "[@click=app.quit]x[/]\x1b[2J\u202e\n"
    app = PickerApp((replace(SESSIONS[0], title=bad, model=bad, problem=""),))
    async with app.run_test(size=(100, 30)) as pilot:
        (prompt,) = await settle(pilot)
        assert prompt.replace("\n", "").isprintable()
        assert prompt.startswith("[@click=app.quit]x[/]")


@pytest.mark.parametrize(
    ("ms", "words"), [(0, "just now"), (60_000, "1 minute ago"), (7_200_000, "2 hours ago"), (90_000_000, "1 day ago")]
)
def test_time_is_told_in_words(ms, words):
    assert format_age(ms) == words


def test_the_picker_looks_as_it_did(snap_compare):
    assert snap_compare(PickerApp(), terminal_size=(120, 40))
