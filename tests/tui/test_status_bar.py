"""What the status bar warns of, and from when on."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult

from tui.state import ViewState
from tui.widgets.status_bar import StatusBar


class Bar(App[None]):
    def compose(self) -> ComposeResult:
        yield StatusBar()


async def styles_of(state: ViewState, text: str) -> set[str]:
    """How `text` is drawn in a bar with room for all facts."""
    async with Bar().run_test(size=(160, 3)) as pilot:
        bar = pilot.app.query_one(StatusBar)
        bar.show(state, "")
        await pilot.pause()
        shown = bar.render()
        start = shown.plain.index(text)
        return {str(span.style) for span in shown.spans if span.start <= start < span.end}


@pytest.mark.parametrize(
    ("used", "text", "is_warning"),
    [(500, "50%", False), (800, "80%", False), (801, "80%", True), (810, "81%", True), (1_200, "100%", True)],
)
async def test_a_window_of_which_more_than_80_percent_are_used_is_warned_of(used, text, is_warning):
    state = ViewState(model="openai/gpt-9")
    state.context_used, state.context_window = used, 1_000
    assert await styles_of(state, text) == ({"$warning"} if is_warning else {"$foreground 60%"})


@pytest.mark.parametrize(("used", "window"), [(0, 1_000), (900, 0)])
async def test_a_window_that_is_not_known_or_empty_is_not_measured(used, window):
    state = ViewState(model="openai/gpt-9")
    state.context_used, state.context_window = used, window
    with pytest.raises(ValueError, match="not found"):
        await styles_of(state, "%")
