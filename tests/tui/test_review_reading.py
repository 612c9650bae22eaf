"""Comments before they are sent, and the diff of a change that is asked about: they are read, changed and answered."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from core.protocol import commands as c
from core.protocol import events as e
from core.protocol import queries as q
from core.protocol.review import Comment
from tests.tui.review_case import PRICES
from tests.tui.test_review_dialogs import diff, proposed, reviewing
from tests.tui.test_review_list import change
from tui.dialogs.consent import ConsentDiff

COMMENTS = [
    Comment(path="src/a.py", hunk="h", text="Why [/red]?", start=3, lines=1),
    Comment(path="src/b.py", hunk="h", text="And this?", start=9, lines=1),
]


@pytest.mark.parametrize("send", ["s", "ctrl+s"])
async def test_comments_are_looked_at_removed_and_sent(stage, clock, send):
    events = [*proposed(change("src/a.py")), *(e.HunkCommented(comment=comment) for comment in COMMENTS)]
    async with stage(events, answers={q.DiffQuery: diff("src/a.py")}) as on:
        await reviewing(on, clock)
        await on.pilot.press("S")
        await on.until(lambda: type(on.app.screen).__name__ == "CommentsDialog")
        await on.pilot.press("j", "d")
        await on.until(lambda: on.sent(c.HunkComment))
        assert on.sent(c.HunkComment)[0] == replace(on.sent(c.HunkComment)[0], path="src/b.py", hunk="h", text="")
        on.transcript._is_following = False
        await on.pilot.press(send)
        await on.until(lambda: on.sent(c.CommentsSend))
        assert on.transcript._is_following
        await on.emit(e.CommentsSent())
        assert on.screen.state.comments == {}
        await on.pilot.press("S")
        await on.pilot.pause(0.05)
        assert on.app.screen is on.screen


@pytest.mark.parametrize(
    ("down_up_edit", "drop", "leave"), [(("j", "k", "e"), "d", "escape"), (("down", "up", "enter"), "delete", "q")]
)
async def test_comments_are_walked_both_ways_changed_and_left(stage, clock, down_up_edit, drop, leave):
    events = [*proposed(change("src/a.py")), *(e.HunkCommented(comment=comment) for comment in COMMENTS)]
    async with stage(events, answers={q.DiffQuery: diff("src/a.py")}) as on:
        await reviewing(on, clock)
        await on.pilot.press("S")
        await on.until(lambda: type(on.app.screen).__name__ == "CommentsDialog")
        await on.pilot.press(*down_up_edit, *" Now.", "enter")
        await on.until(lambda: on.sent(c.HunkComment))
        assert [(command.path, command.text) for command in on.sent(c.HunkComment)] == [
            ("src/a.py", "Why [/red]? Now.")
        ]
        await on.pilot.press("down", drop)
        await on.until(lambda: len(on.sent(c.HunkComment)) == 2)
        assert [(command.path, command.text) for command in on.sent(c.HunkComment)[1:]] == [("src/b.py", "")]
        await on.pilot.press(leave)
        await on.until(lambda: on.app.screen is on.screen)
        assert on.sent(c.CommentsSend) == []


async def test_a_diff_that_is_asked_about_is_read_in_all_directions(stage, clock):
    wide = replace(PRICES, change=replace(PRICES.change, protected=True, risk="runs automatically"))
    async with stage(proposed(wide.change), size=(60, 16), answers={q.DiffQuery: q.DiffAnswer(diff=wide)}) as on:
        await reviewing(on, clock)
        await on.pilot.press("a")
        await on.until(lambda: on.app.screen.query(ConsentDiff))
        await on.pilot.pause(0.05)
        view = on.app.screen.query_one(ConsentDiff)
        for down, up in (("j", "k"), ("down", "up"), ("pagedown", "pageup")):
            begin = view.scroll_offset
            await on.pilot.press(down)
            below = view.scroll_offset
            assert (below.x, below.y > begin.y) == (begin.x, True)
            await on.pilot.press(up)
            assert view.scroll_offset.y < below.y
        await on.pilot.press("z", "right")
        assert view.scroll_offset.x > 0
        await on.pilot.press("left")
        assert view.scroll_offset.x == 0
        assert on.sent(c.HunkResolve) == []
