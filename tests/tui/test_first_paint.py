from __future__ import annotations

from typing import Any

import pytest
from textual.css import stylesheet

from tests.support.scripted_client import ScriptedClient
from tui.app import AgentApp
from tui.bridge import SessionRequest
from tui.screens.main import MainScreen
from tui.themes.appearance import ThemedApp
from tui.widgets.status_bar import StatusBar


async def _connect() -> ScriptedClient:
    return ScriptedClient()


async def test_the_first_paint_has_the_status_bar_and_waits_for_no_controller(monkeypatch):
    paints: list[tuple[bool, str]] = []
    display = AgentApp._display

    def note(self: AgentApp, screen: Any, renderable: Any) -> None:
        status = self.main.query_one(StatusBar)
        if isinstance(screen, MainScreen) and status.size:
            paints.append((self.main._is_loaded, str(status.render())))
        display(self, screen, renderable)

    monkeypatch.setattr(AgentApp, "_display", note)
    app = AgentApp(_connect, SessionRequest(model="scripted/demo"))
    async with app.run_test() as pilot:
        await pilot.pause()
        assert app.main._is_loaded
    is_loaded, words = paints[0]
    assert not is_loaded
    assert "starting" in words


@pytest.mark.parametrize("theme", ["agent-dark", "agent-light"])
async def test_a_start_parses_each_style_sheet_once_and_has_the_colours_of_the_theme(monkeypatch, theme):
    sheets: list[object] = []
    parse = stylesheet.parse

    def note(scope: str, css: str, read_from: Any, *rest: Any, **options: Any) -> Any:
        sheets.append(read_from)
        return parse(scope, css, read_from, *rest, **options)

    monkeypatch.undo()  # of the rules that tests share
    monkeypatch.setattr(stylesheet, "parse", note)
    app = AgentApp(_connect, SessionRequest(model="scripted/demo"), theme=theme)
    async with app.run_test():
        own_sheets = [sheet for sheet in sheets if "app.tcss" in str(sheet)]
        background = app.main.styles.background.hex.lower()
        assert background == app.theme_variables["background"].lower()
    assert len(own_sheets) == len(set(own_sheets)) == 1


async def test_a_theme_that_is_chosen_later_restyles_the_screen():
    app = AgentApp(_connect, SessionRequest(model="scripted/demo"), theme="agent-dark")
    async with app.run_test() as pilot:
        before = app.main.styles.background
        app.appearance.choose("agent-light")
        assert ThemedApp.show_appearance(app)
        await pilot.pause()
        assert app.main.styles.background != before
        assert app.main.styles.background.hex.lower() == app.theme_variables["background"].lower()
