from __future__ import annotations

import pytest
from textual.command import CommandList

from core.protocol import events as e
from core.protocol.queries import DiffAnswer, DiffQuery
from tests.support import recorded
from tests.tui.review_case import PRICES
from tui.command_palette import PALETTE_SCOPES, list_palette_entries
from tui.key_scopes import SCOPE_TITLES
from tui.key_table import KEYS
from tui.review.diff.view import DiffView
from tui.slash_commands import SLASH_COMMANDS


def test_the_palette_has_every_key_outside_of_dialogs_and_every_slash_command():
    lines = list_palette_entries({})
    assert {(each.scope, each.action) for each in lines} >= {
        (key.scope, key.action) for key in KEYS if key.scope in PALETTE_SCOPES
    }
    assert {f"/{each.word}" for each in SLASH_COMMANDS} <= {each.shortcut for each in lines}


def test_the_palette_shows_the_keys_that_are_in_force():
    line = next(
        each for each in list_palette_entries({"review.accept": "ctrl+full_stop"}) if each.label == "Review: Accept"
    )
    assert line.shortcut == "ctrl+."


def test_every_place_of_a_key_has_a_name():
    assert {key.scope for key in KEYS} == set(SCOPE_TITLES)


async def chosen(on, words: str) -> None:
    await on.pilot.press("ctrl+p")
    await on.until(lambda: type(on.app.screen).__name__ == "CommandPalette")
    await on.pilot.press(*words)
    found, workers = on.app.screen.query_one(CommandList), on.app.workers
    await on.until(lambda: found.option_count and all(w.is_finished for w in workers if w.node is on.app.screen))
    await on.pilot.press("enter", "enter")
    await on.until(lambda: on.app.screen is on.screen)
    await on.pilot.pause(0.1)


async def test_a_key_of_the_review_can_be_chosen_by_name(stage):
    async with stage(recorded.opening(), answers={DiffQuery: DiffAnswer(diff=PRICES)}) as on:
        await on.emit(e.ChangeProposed(change=PRICES.change))
        await on.until(lambda: on.screen.query(DiffView) and on.screen.query_one(DiffView).diff is not None)
        await chosen(on, "next hunk")
        await on.until(lambda: on.screen.query_one(DiffView).current == 1)
        assert on.screen.query_one(DiffView).has_focus


@pytest.mark.parametrize("words", ["approval allow", "question dismiss"])
async def test_what_has_no_place_now_says_so(stage, words):
    async with stage(recorded.opening()) as on:
        await chosen(on, words)
        await on.until(lambda: on.app._notifications)
        assert "nothing to do that with" in next(iter(on.app._notifications)).message
