"""The keys at the foot of a pane or a dialog: none is cut, and it is said where those are that are left out."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult

from core.protocol import events as e
from core.protocol.queries import DiffAnswer, DiffQuery
from tests.support import recorded
from tests.tui.panes_case import NOW, PLAN, SESSIONS
from tests.tui.review_case import PRICES
from tui.key_table import KEYS
from tui.keymap import format_first_key
from tui.sessions.picker import SessionPicker
from tui.widgets.key_hints import KeyHints

IMPORTANT = {
    "ctrl+r": ("a accept", "r reject", "j next", "u undo", "c comment", "e edit", "w why", "s split", "l list"),
    "ctrl+t": ("space status", "b build", "n new", "e edit", "enter read", "v graph", "/ find", "w needs"),
}
EVENTS = [
    *recorded.opening(),
    e.PlanUpdated(plan=PLAN),
    e.ChangeProposed(change=PRICES.change),
]


class Foot(App[None]):
    CSS = "KeyHints { width: 40; }"

    def compose(self) -> ComposeResult:
        yield KeyHints()


def drawn(hints: KeyHints) -> list[str]:
    return [hints.render_line(y).text.rstrip() for y in range(hints.size.height)]


async def test_a_key_is_never_apart_from_its_word_and_what_is_left_out_is_said_to_be_elsewhere():
    hints = [("review.accept", "take it"), ("review.reject", "leave it"), ("review.undo", "take it back")]
    app = Foot()
    async with app.run_test() as pilot:
        foot = app.query_one(KeyHints)
        foot.show(hints, fixed_hints=[("app.interrupt", "back")])
        await pilot.pause()
        assert drawn(foot) == [" a take it  r leave it  u take it back", " esc back"]
        foot.show(hints, fixed_hints=[("app.interrupt", "back")], most_rows=1)
        await pilot.pause()
        assert drawn(foot) == [" a take it  f1 more  esc back"]
        foot.show(hints[:2], fixed_hints=[("app.interrupt", "back")], most_rows=1)
        await pilot.pause()
        assert drawn(foot) == [" a take it  r leave it  esc back"]


@pytest.mark.slow
@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40), (200, 60)])
@pytest.mark.parametrize("key", IMPORTANT)
async def test_the_foot_of_a_pane_shows_what_there_is_room_for_and_where_the_rest_is(stage, key, size):
    async with stage(EVENTS, size=size, answers={DiffQuery: DiffAnswer(diff=PRICES)}) as on:
        await on.pilot.press(key)
        await on.until(lambda: "esc back" in str(on.screen.query_one("#side-hint").render()))
        foot = on.screen.query_one("#side-hint", KeyHints)
        await on.until(lambda: foot.size.height == len(str(foot.render()).split("\n")))
        rows = drawn(foot)
        foot_text = "  ".join(rows)
        assert all(len(row) <= foot.size.width for row in rows)
        assert rows[-1].endswith("esc back")
        left_out = [hint for hint in IMPORTANT[key] if hint not in foot_text]
        assert (left_out != []) == (size[0] < 120)
        if left_out:
            assert "f1 more" in foot_text


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40)])
async def test_every_key_of_a_session_is_shown_whole(size):
    class Shelf:
        async def change(self, command): ...
        async def load(self): ...
        async def search(self, words): ...

    app: App[None] = App()
    async with app.run_test(size=size) as pilot:
        await app.push_screen(SessionPicker(SESSIONS, now=NOW, shelf=Shelf()))
        await pilot.pause()
        foot = app.screen.query_one(KeyHints)
        foot_text = "  ".join(drawn(foot))
        words = {"rename": "rename", "tag": "tag", "export": "export", "delete": "delete", "cancel": "back"}
        for session_key in (key for key in KEYS if key.scope == "sessions" and key.id.partition(".")[2] in words):
            assert f"{format_first_key(session_key.id, {})} {words[session_key.id.partition('.')[2]]}" in foot_text
        assert app.screen.region.contains_region(foot.region)
