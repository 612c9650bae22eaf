"""The review has the whole window while it has the focus, where half of it is too narrow for code."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from core.protocol import queries as q
from core.protocol.commands import HunkResolve
from tests.tui.review_case import PRICES, diff_of
from tests.tui.test_review_dialogs import proposed, reviewing
from tui.review.diff.view import DiffView

ROWS = "\n".join(
    f"row {number} = 'some text of an even length that wraps in half a window, but not here'" for number in range(90)
)
TALL = diff_of("src/tall.py", [(" ", "start"), ("-+", f"=>{ROWS}"), (" ", "end")])
ANSWERS = {q.DiffQuery: q.DiffAnswer(diff=TALL)}


def is_whole(on) -> bool:
    return on.panes.review.region.width == on.app.size.width


@pytest.mark.parametrize(("width", "whole"), [(110, True), (159, True), (160, False)])
async def test_the_review_takes_a_window_below_160_columns_and_gives_it_back(stage, clock, width, whole):
    async with stage(proposed(TALL.change), size=(width, 40), answers=ANSWERS) as on:
        await reviewing(on, clock)
        assert is_whole(on) == whole
        await on.pilot.press("escape")
        assert on.prompt.has_focus
        assert on.prompt.region.width > 40
        assert not is_whole(on)
        assert on.panes.review.region.width > 40
        await on.pilot.press("ctrl+r")
        assert is_whole(on) == whole


async def test_no_frame_shows_half_a_window_before_the_whole(stage, clock):
    widths = []
    async with stage(proposed(TALL.change), size=(120, 40), answers=ANSWERS) as on:
        resize = DiffView.on_resize

        def note(view, event):
            widths.append(event.size.width)
            resize(view, event)

        DiffView.on_resize = note
        try:
            await reviewing(on, clock)
        finally:
            DiffView.on_resize = resize
        assert set(widths) == {120}


async def test_a_dialog_over_the_review_changes_no_width_and_a_filter_neither(stage, clock):
    guarded = replace(TALL, change=replace(TALL.change, protected=True, risk="runs by itself"))
    async with stage(proposed(guarded.change), size=(120, 40), answers={q.DiffQuery: q.DiffAnswer(diff=guarded)}) as on:
        await reviewing(on, clock)
        await on.pilot.press("f1")
        await on.until(lambda: on.app.screen is not on.screen)
        assert on.screen.has_class("-whole")
        await on.pilot.press("escape")
        await on.until(lambda: on.app.screen is on.screen)
        assert is_whole(on)
        await on.pilot.press("slash")
        await on.pilot.pause()
        assert is_whole(on)
        assert on.sent(HunkResolve) == []


@pytest.mark.parametrize("keys", [(), ("pagedown",), ("G",)], ids=["top", "middle", "end"])
async def test_the_place_that_is_read_is_there_again_when_the_focus_comes_back(stage, clock, keys):
    async with stage(proposed(TALL.change), size=(120, 40), answers=ANSWERS) as on:
        await reviewing(on, clock)
        view = on.panes.review.browser.diff_view
        await on.until(lambda: view.diff is not None)
        await on.pilot.press(*keys)
        await on.pilot.pause()
        before = view.scroll_offset.y
        line = view.get_row_text(before + 3)
        await on.pilot.press("escape")
        await on.pilot.pause()
        assert view.size.width < 100
        assert view.count_rows() > 120
        await on.pilot.press("ctrl+r")
        await on.until(lambda: view.size.width == 120)
        await on.pilot.pause()
        assert (view.scroll_offset.y, view.get_row_text(view.scroll_offset.y + 3)) == (before, line)


async def test_a_click_acts_where_it_was_aimed_and_the_pane_grows_after_it(stage, clock):
    async with stage(proposed(PRICES.change), size=(150, 40), answers={q.DiffQuery: q.DiffAnswer(diff=PRICES)}) as on:
        await reviewing(on, clock)
        await on.pilot.press("escape")
        view = on.panes.review.browser.diff_view
        await on.until(lambda: view.diff is not None and view.size.width < 100)
        row = view.find_hunk_rows(1)[0] - view.scroll_offset.y
        await on.pilot.click(view, offset=(view.size.width - 5, row))
        await on.until(lambda: is_whole(on))
        assert view.current == 1
        assert on.sent(HunkResolve) == []


async def test_two_columns_still_take_a_wide_window_and_give_it_back(stage, clock):
    async with stage(proposed(TALL.change), size=(180, 40), answers=ANSWERS) as on:
        await reviewing(on, clock)
        assert not is_whole(on)
        await on.pilot.press("v")
        await on.pilot.pause()
        assert is_whole(on)
        await on.pilot.press("escape")
        await on.pilot.pause()
        assert not is_whole(on)
        await on.pilot.press("ctrl+r")
        await on.until(lambda: is_whole(on))
        await on.pilot.press("v")
        await on.pilot.pause()
        assert not is_whole(on)
