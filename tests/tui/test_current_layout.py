"""What a widget shows now has its rows, however often it changed before the screen came to it."""

from __future__ import annotations

import pytest
from textual.containers import Vertical
from textual.widgets import Static

from tests.tui.conftest import Stage
from tui.dialogs.pages import ConfirmDialog


async def show_boxed(on: Stage) -> tuple[Static, Static]:
    """Show two texts of one row in a box that is as high as they are."""
    text, neighbour = Static("a row", id="text"), Static("a row")
    box = Vertical(text, neighbour)
    box.styles.height = "auto"
    await (on.app.screen if isinstance(on.app.screen, ConfirmDialog) else on.screen.query_one("#centre")).mount(box)
    await on.until(lambda: text.size.height == 1)
    return text, neighbour


@pytest.mark.parametrize("is_dialog", [False, True])
@pytest.mark.parametrize("rows", [(2, 3), (3, 2), (3, 1), (1, 3)])
async def test_a_text_that_changes_again_before_it_was_idle_has_the_rows_of_the_last_change(stage, rows, is_dialog):
    async with stage([]) as on:
        if is_dialog:
            on.app.push_screen(ConfirmDialog("Leave?", "Now."))
            await on.until(lambda: isinstance(on.app.screen, ConfirmDialog) and on.app.screen.query("Static"))
        text, neighbour = await show_boxed(on)
        for number in rows:
            text.update("\n".join(["a row"] * number))
            neighbour.refresh(layout=True)
            neighbour._check_refresh()  # it was idle before the text was
            on.app.screen._refresh_layout()
        await on.pilot.pause()
        assert text.size.height == text.region.height == rows[-1]
        assert text.parent.region.height == rows[-1] + 1
