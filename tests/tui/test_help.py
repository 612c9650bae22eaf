from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

import pytest

from core.protocol import events as e
from core.protocol.events import ChangeProposed
from core.protocol.queries import (
    ConfigAnswer,
    ConfigQuery,
    DiffAnswer,
    DiffQuery,
    ManualAnswer,
    ManualPage,
    ManualQuery,
    SettingRow,
    SettingsProblem,
)
from tests.support import recorded
from tests.support.scripted_client import ScriptedClient
from tests.tui.review_case import PRICES
from tui.app import AgentApp
from tui.bridge import SessionRequest
from tui.dialogs.pages import render_help
from tui.key_table import KEYS
from tui.keymap import SCOPE_TITLES, format_keys
from tui.search.key_help import NOTHING, PLACES, KeyHelpDialog, list_scopes, render_keys
from tui.slash_commands import SLASH_COMMANDS


@pytest.mark.parametrize("width", [50, 68, 93])
def test_the_page_of_keys_has_a_column_for_keys_and_one_for_what_they_do_and_loses_no_word(width):
    text = render_keys({}, width).plain
    assert "app.mode_next" not in text
    for scope, section in zip(SCOPE_TITLES, text.split("\n\n"), strict=False):
        own = [key for key in KEYS if key.scope == scope]
        title, *rows = section.split("\n")
        assert title == SCOPE_TITLES[scope]
        assert max(map(len, rows)) <= width
        column = rows[0].index(own[0].tooltip[:10])
        keys, tooltip_text = (
            " ".join(" ".join(row[half] for row in rows).split()) for half in (slice(column), slice(column, None))
        )
        assert keys == " ".join(format_keys(key.keys) for key in own)
        assert tooltip_text == " ".join(key.tooltip for key in own)


def test_the_place_with_the_focus_comes_first_with_what_it_is_for():
    text = render_keys({}, 80, ["review", "lines"]).plain
    assert text.startswith(f"Review\n{PLACES['review'][:40]}")
    assert text.index("Keys: Review") < text.index("Long lines of a file") < text.index("Everywhere")


def test_a_search_leaves_the_keys_that_are_told_so_and_says_when_there_are_none():
    text = render_keys({}, 80, ["review"], "accept file").plain
    assert "Write all hunks of this file" in text
    assert "Everywhere" not in text
    assert render_keys({}, 80, [], "zzzz").plain == NOTHING


async def test_f1_explains_the_place_that_has_the_focus_and_searches(stage):
    async with stage(recorded.opening()) as on:
        await on.pilot.press("f1")
        await on.until(lambda: isinstance(on.app.screen, KeyHelpDialog))
        help_text = on.app.screen.query_one("#keyhelp-text")
        await on.until(lambda: str(help_text.render()).startswith("Prompt"))
        scroll = on.app.screen.query_one("VerticalScroll")
        await on.pilot.press("pagedown")
        await on.until(lambda: scroll.scroll_offset.y > 2)
        away = scroll.scroll_offset.y
        for key, moved in (("up", away - 1), ("down", away), ("pageup", 0)):
            await on.pilot.press(key)
            await on.until(lambda moved=moved: scroll.scroll_offset.y == moved)
        await on.pilot.press("pagedown", *"rewind")
        await on.until(lambda: "esc twice" in str(help_text.render()) or "earlier prompt" in str(help_text.render()))
        assert scroll.scroll_offset.y == 0
        for key in ("f1", "enter"):
            await on.pilot.press(key)
            await on.until(lambda: on.app.screen is on.screen)
            await on.pilot.press("f1")
            await on.until(lambda: isinstance(on.app.screen, KeyHelpDialog))


async def test_a_question_mark_opens_help_in_a_pane_and_in_an_empty_prompt_and_is_text_elsewhere(stage):
    async with stage([*recorded.opening(), ChangeProposed(change=recorded.change())]) as on:
        await on.pilot.press("?")
        await on.until(lambda: isinstance(on.app.screen, KeyHelpDialog))
        await on.pilot.press("escape")
        await on.until(lambda: on.app.screen is on.screen)
        await on.pilot.press("ctrl+r")
        await on.until(lambda: on.panes.review is not None and on.panes.review.has_focus_within)
        await on.pilot.press("?")
        await on.until(lambda: isinstance(on.app.screen, KeyHelpDialog))
        await on.pilot.press("escape")
        await on.until(lambda: on.app.screen is on.screen)
        await on.pilot.press("escape")
        await on.until(lambda: on.prompt.has_focus)
        await on.pilot.press(*"why?")
        await on.until(lambda: on.prompt.text == "why?")
        assert on.app.screen is on.screen


PANES = {"review": "ctrl+r", "files": "ctrl+b", "plan": "ctrl+t", "preview": "ctrl+o", "debug": "f6", "agents": "f9"}
MORE_PANES = {"background": "shift+f9", "findings": "shift+f8", "prompt": "up"}


@pytest.mark.parametrize(("place", "key"), [*PANES.items(), *MORE_PANES.items()])
async def test_f1_begins_with_the_pane_with_the_focus_and_its_own_keys(stage, place, key):
    async with stage(recorded.opening(), answers={DiffQuery: DiffAnswer(diff=PRICES)}) as on:
        await on.emit(e.ChangeProposed(change=PRICES.change))
        await on.pilot.press(key)
        await on.until(lambda: on.screen.focused is not None and list_scopes(on.screen.focused)[0] == place)
        await on.pilot.press("f1")
        await on.until(lambda: isinstance(on.app.screen, KeyHelpDialog))
        text = on.app.screen.query_one("#keyhelp-text")
        await on.until(lambda: str(text.render()).startswith(SCOPE_TITLES[place]))
        first, second = str(text.render()).split("\n\n")[:2]
        assert " ".join(first.split()) == f"{SCOPE_TITLES[place]} {PLACES[place]}"
        assert second.startswith(f"Keys: {SCOPE_TITLES[place]}\n")


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (100, 30), (120, 40)])
async def test_help_is_wrapped_once_beside_its_scroll_bar(stage, size):
    async with stage(recorded.opening(), size=size) as on:
        await on.pilot.press("f1")
        await on.until(lambda: isinstance(on.app.screen, KeyHelpDialog))
        help_text, scroll = on.app.screen.query_one("#keyhelp-text"), on.app.screen.query_one("VerticalScroll")
        await on.until(lambda: scroll.max_scroll_y and str(help_text.render()).startswith("Prompt"))
        assert max(len(line) for line in str(help_text.render()).split("\n")) <= scroll.scrollable_content_region.width


async def test_the_settings_are_shown_with_where_they_come_from_and_what_is_wrong(stage):
    row = SettingRow(key="limits.max_steps", value=5, default=100, source="config.toml, line 3", meaning="model calls")
    answer = ConfigAnswer(settings=(row,), problems=(SettingsProblem(level="warning", message="There is no theme."),))
    async with stage(recorded.opening(), answers={ConfigQuery: answer}) as on:
        on.prompt.set_text("/config limits.max_steps")
        await on.pilot.press("enter")
        await on.until(lambda: type(on.app.screen).__name__ == "PageDialog")
        text = str(on.app.screen.query_one("VerticalScroll Static").render())
        assert all(word in text for word in ("! There is no theme.", "line 3", "means: model calls", "default: 100"))
        asked = [query for query in on.client.queries if isinstance(query, ConfigQuery)]
        assert asked[0].key == "limits.max_steps"


async def test_settings_stand_in_columns_and_are_written_as_in_a_file(stage):
    settings = (
        SettingRow(key="notify.title", value=False),
        SettingRow(key="notify.command", value=["bell"]),
        SettingRow(key="notify.when", value=""),
    )
    async with stage(recorded.opening(), answers={ConfigQuery: ConfigAnswer(settings=settings)}) as on:
        on.prompt.set_text("/config notify")
        await on.pilot.press("enter")
        await on.until(lambda: type(on.app.screen).__name__ == "PageDialog")
        rows = str(on.app.screen.query_one("VerticalScroll Static").render()).splitlines()
        assert rows[:3] == ["notify.title    false", 'notify.command  ["bell"]', "notify.when     –"]


async def test_help_with_a_topic_shows_a_page_of_the_manual_and_says_which_there_are(stage):
    manual = ManualAnswer(
        page="review", text="# Reviewing\n\nEach *hunk* waits.", pages=(ManualPage(name="review", title="Reviewing"),)
    )
    async with stage(recorded.opening(), answers={ManualQuery: manual}) as on:
        on.prompt.set_text("/help review")
        await on.pilot.press("enter")
        await on.until(lambda: type(on.app.screen).__name__ == "PageDialog")
        text = on.app.screen.query_one("PageText")
        await on.until(lambda: "Each hunk waits." in str(text.render()))
    missing = ManualAnswer(pages=manual.pages)
    async with stage(recorded.opening(), answers={ManualQuery: missing}) as on:
        on.prompt.set_text("/help nothing")
        await on.pilot.press("enter")
        await on.until(lambda: on.app._notifications)
        assert "Pages: review" in next(iter(on.app._notifications)).message


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40), (200, 60)])
async def test_a_toast_covers_no_tabs_names_or_keys_of_a_pane_and_no_prompt(size):
    async def connect() -> ScriptedClient:
        events = [*recorded.opening(), e.ChangeProposed(change=PRICES.change)]
        return ScriptedClient(events, answers={DiffQuery: DiffAnswer(diff=PRICES)})

    async def until(holds: Callable[[], object]) -> None:
        async with asyncio.timeout(30):
            while not holds():
                await pilot.pause(0.01)

    app = AgentApp(connect, SessionRequest(model="m"))
    async with app.run_test(size=size, notifications=True) as pilot:
        await until(lambda: app.main.is_attached and app.main.state.changes)
        if size[0] < 120:  # where there is room it opens by itself
            await pilot.press("ctrl+r")
        await until(lambda: app.main.query("#side-hint") and app.main.query_one("#side-hint").region)
        app.main.context.notify_user("The file on disk has changed, which is told here in a few words.", is_error=True)
        await pilot.pause(0.2)
        (toast,) = (widget.region for widget in app.main.query("Toast"))
        assert toast.width > 10
        assert app.main.region.contains_region(toast)
        parts = ("#side-title", "#side-hint", "#prompt", "#status")
        covered = [
            name for name in parts for widget in app.main.query(name) if widget.region and widget.region.overlaps(toast)
        ]
        assert covered == []


@pytest.mark.parametrize("width", [50, 68, 93, 150])
def test_the_page_of_commands_runs_no_words_together(width):
    text = render_help(ManualAnswer(pages=(ManualPage(name="review", title=""),)), width).plain
    for command in SLASH_COMMANDS:
        assert re.search(rf"/{command.word} +{re.escape(command.label[:12])}", text)
    assert max(len(line.rstrip()) for line in text.split("\n")[3:]) <= max(width, 90)


@pytest.mark.parametrize(("size", "shown"), [((120, 40), 2), ((60, 16), 1)])
async def test_a_toast_is_not_repeated_while_it_can_be_read_whoever_shows_it(stage, size, shown):
    async with stage(recorded.opening(), size=size) as on:
        for _ in range(3):
            on.screen.context.notify_user("All reviewed.")
            on.prompt.notify("All reviewed.", markup=False)
        on.prompt.notify("The clipboard is empty.", markup=False)
        await on.until(lambda: any("clipboard" in notification.message for notification in on.app._notifications))
        await on.pilot.pause()
        assert len(on.app._notifications) == shown
