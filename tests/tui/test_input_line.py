"""Keys that a slow link brings all at once count in their order."""

from __future__ import annotations

import pytest
from textual import events
from textual.app import App, ComposeResult
from textual.widgets import Input

from tui.widgets.input_line import SteadyInput

NAMED = {"ctrl+u", "ctrl+w", "ctrl+k", "backspace", "left", "right", "home", "end", "delete", "enter"}


class Form(App[None]):
    submitted = ""

    def compose(self) -> ComposeResult:
        yield SteadyInput(select_on_focus=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.submitted = event.value


@pytest.mark.parametrize(
    ("keys", "value", "submitted"),
    [
        ("o l d ctrl+u n e w", "new", ""),
        ("a x backspace b", "ab", ""),
        ("a c left b", "abc", ""),
        ("b home a end c", "abc", ""),
        ("o n e space t w o ctrl+w 2", "one 2", ""),
        ("a b left left ctrl+k c", "c", ""),
        ("x b home delete a", "ab", ""),
        ("2 . 5 enter 7", "2.57", "2.5"),
    ],
)
async def test_keys_of_one_packet_count_in_their_order(keys, value, submitted):
    app = Form()
    async with app.run_test() as pilot:
        for key in keys.split():
            letter = None if key in NAMED else " " if key == "space" else key
            app.post_message(events.Key("full_stop" if key == "." else key, letter))
        await pilot.pause()
        await pilot.pause()
        assert (app.query_one(Input).value, app.submitted) == (value, submitted)
