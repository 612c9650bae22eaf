from __future__ import annotations

import pytest
from textual.widgets import Input, OptionList

from core.protocol import events as e
from core.protocol.commands import GuideKeep
from core.protocol.queries import DiffAnswer, DiffQuery, GuideAnswer, GuideQuery
from tests.support import recorded
from tests.tui.review_case import PRICES
from tui.key_table import KEYS
from tui.keymap import SCOPE_TITLES
from tui.review.diff.view import DiffView
from tui.search.palette import NOTHING, PALETTE_SCOPES, PaletteDialog, list_palette_entries, search_palette
from tui.slash_commands import SLASH_COMMANDS


def test_the_palette_has_every_key_outside_of_dialogs_and_every_slash_command():
    lines = list_palette_entries({})
    assert {(entry.scope, entry.action) for entry in lines} >= {
        (key.scope, key.action) for key in KEYS if key.scope in PALETTE_SCOPES
    }
    assert {f"/{command.word}" for command in SLASH_COMMANDS} <= {entry.shortcut for entry in lines}


def test_the_palette_shows_the_keys_that_are_in_force():
    line = next(
        entry for entry in list_palette_entries({"review.accept": "ctrl+full_stop"}) if entry.label == "Review: Accept"
    )
    assert line.shortcut == "ctrl+."


def test_every_place_of_a_key_has_a_name():
    assert {key.scope for key in KEYS} == set(SCOPE_TITLES)


async def chosen(on, words: str) -> None:
    await on.pilot.press("ctrl+p")
    await on.until(lambda: isinstance(on.app.screen, PaletteDialog))
    await on.pilot.press(*words)
    await on.until(lambda: on.app.screen.query_one(Input).value == words)
    await on.pilot.press("enter")
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
        assert next(iter(on.app._notifications)).message == "Not available now."


@pytest.mark.parametrize(
    ("typed", "first"),
    [
        ("theme", "Choose a theme (colours)"),
        ("/theme", "Choose a theme (colours)"),
        ("colours", "Choose a theme (colours)"),
        ("accept", "Accept pending changes"),
        ("review accept", "Review: Accept"),
        ("undo", "Undo the last verdict"),
        ("send com", "Review: Send comments"),
        ("keys", "All keys"),
        ("mdel", "Models"),
    ],
)
def test_exact_words_come_before_letters_in_this_order(typed, first):
    assert search_palette(list_palette_entries({}), typed)[0].label == first


def test_words_that_a_command_has_leave_out_those_that_have_only_the_letters():
    assert [entry for entry in search_palette(list_palette_entries({}), "theme") if "comments" in entry.label] == []


def test_what_was_chosen_last_comes_first_among_equals():
    entries = list_palette_entries({})
    assert search_palette(entries, "", [entries[7].id, entries[3].id])[:2] == [entries[7], entries[3]]


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40), (200, 60)])
async def test_each_command_has_one_line_with_its_key_at_the_right(stage, size):
    async with stage(recorded.opening(), size=size) as on:
        await on.pilot.press("ctrl+p")
        await on.until(lambda: isinstance(on.app.screen, PaletteDialog))
        options = on.app.screen.query_one(OptionList)
        await on.until(lambda: options.option_count and options.size.width > 20)
        await on.pilot.pause()
        lines = [options.render_line(row).text.rstrip() for row in range(min(options.size.height, 8))]
        assert lines[0].startswith("Next mode")
        assert lines[0].endswith("shift+tab")
        assert len({len(line) for line in lines}) == 1
        box = on.app.screen.query_one(".dialog").region
        assert abs(box.x - (size[0] - box.right)) <= 1
        assert abs(box.y - (size[1] - box.bottom)) <= 1


async def test_a_chosen_command_is_first_the_next_time_and_nothing_found_is_said(stage):
    async with stage(recorded.opening()) as on:
        await on.pilot.press("ctrl+p", *"all keys", "enter")
        await on.until(lambda: type(on.app.screen).__name__ == "KeyHelpDialog")
        await on.pilot.press("escape", "ctrl+p")
        await on.until(lambda: isinstance(on.app.screen, PaletteDialog))
        await on.until(lambda: on.app.screen.has_choices)
        assert on.app.screen.query_one(OptionList).get_option_at_index(0).prompt.plain.endswith("/keys")
        (choice,) = [command.chosen for command in on.sent(GuideKeep) if command.chosen]
        await on.pilot.press(*"zzzz")
        await on.until(lambda: not on.app.screen.has_choices)
        assert NOTHING in str(on.app.screen.query_one(".dialog-about").render())
    async with stage(
        recorded.opening(), answers={GuideQuery: GuideAnswer(chosen=(choice, "of an older version"))}
    ) as on:
        await on.until(lambda: on.screen.controllers.guide.chosen)
        await on.pilot.press("ctrl+p")
        await on.until(lambda: isinstance(on.app.screen, PaletteDialog) and on.app.screen.has_choices)
        assert on.app.screen.query_one(OptionList).get_option_at_index(0).prompt.plain.endswith("/keys")


async def test_a_row_that_is_no_longer_in_the_list_is_neither_explained_nor_chosen(stage):
    async with stage(recorded.opening()) as on:
        await on.pilot.press("ctrl+p")
        await on.until(lambda: isinstance(on.app.screen, PaletteDialog) and on.app.screen.query_one(OptionList).options)
        dialog = on.app.screen
        options = dialog.query_one(OptionList)
        row = options.get_option_at_index(0)
        dialog.fill_list("zzzz")
        for message in (OptionList.OptionHighlighted, OptionList.OptionSelected):
            options.post_message(message(options, row, 0))
        await on.pilot.pause()
        assert NOTHING in str(dialog.query_one(".dialog-about").render())
        assert on.app.screen is dialog
