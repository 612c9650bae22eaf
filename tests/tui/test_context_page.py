"""The dialog of the context: what a request is made of, why, and leaving a part of it out."""

from __future__ import annotations

import pytest
from textual.widgets import OptionList, Static

from core.engine.queries.model_context import report_context
from core.protocol import commands as c
from core.protocol.queries import ContextAnswer, ContextPart, ContextQuery, IdleAnswer, IdleQuery
from core.state.session import SessionState
from tests.support import recorded

NOTES = (
    "The reasoning of 2 earlier answers is no longer sent.",
    "The provider's cache was missed: tools changed, about 12,345 tokens.",
)
PARTS = (
    ContextPart(name="tools", tokens=9, reason="what the agent can do", problem="it starts every request"),
    ContextPart(id="4:12:ab", name="add · utils.ts:3-9", tokens=120, reason="sent with “fix add”"),
)
ANSWERS = {
    ContextQuery: ContextAnswer(parts=PARTS, used=900, window=1_000, notes=NOTES),
    IdleQuery: IdleAnswer(seq=1),
}


async def test_the_report_says_what_the_last_request_lost_and_why():
    state = SessionState(context_used=900, context_window=1_000)
    assert (await report_context(None, state)).notes == ()
    state.dropped_reasoning_count, state.cache_miss = 2, "tools changed, about 12,345 tokens"
    assert (await report_context(None, state)).notes == NOTES


def said(on, name):
    return str(on.app.screen.query_one(f"#{name}", Static).content)


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 16)])
async def test_the_page_shows_every_part_its_reason_and_the_notes(stage, size):
    async with stage(recorded.opening(), answers=ANSWERS, size=size) as on:
        await on.open_listing("/context", "ContextDialog")
        options = on.app.screen.query_one(OptionList)
        rows = [str(options.get_option_at_index(index).prompt) for index in range(options.option_count)]
        assert [row.split() for row in rows] == [["9", "tools"], ["120", "·", "add", "·", "utils.ts:3-9"]]
        assert said(on, "listing-sum") == "900 of 1,000 tokens"
        assert said(on, "listing-notes") == "\n".join(NOTES)
        assert said(on, "listing-reason").startswith("What the agent can do. Can't leave it out: it starts")


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 16)])
async def test_of_a_long_list_the_reason_stays_in_view(stage, size):
    reason = "sent once, with the first prompt, " * 5
    parts = tuple(ContextPart(id=str(index), name=f"part {index}", tokens=9, reason=reason) for index in range(30))
    answers = {**ANSWERS, ContextQuery: ContextAnswer(parts=parts, used=900, window=1_000)}
    async with stage(recorded.opening(), answers=answers, size=size) as on:
        await on.open_listing("/context", "ContextDialog")
        await on.pilot.press("k")
        reason_label = on.app.screen.query_one("#listing-reason", Static)
        geometry = on.app.screen.find_widget(reason_label)
        assert reason_label.region.height >= 2
        assert geometry.visible_region == reason_label.region


@pytest.mark.parametrize(("down", "up", "drop"), [("j", "k", "d"), ("down", "up", "delete")])
async def test_a_part_is_left_out_by_a_key_struck_twice(stage, down, up, drop):
    async with stage(recorded.opening(), answers=ANSWERS) as on:
        await on.open_listing("/context", "ContextDialog")
        await on.pilot.press(down, drop)
        await on.pilot.pause()
        assert "again to leave out 120 tokens" in said(on, "listing-reason")
        assert "cache is lost" in said(on, "listing-reason")
        assert on.sent(c.ContextDrop) == []
        await on.pilot.press(drop)
        await on.until(lambda: on.sent(c.ContextDrop))
        assert on.sent(c.ContextDrop)[0].part == "4:12:ab"
        await on.pilot.press(up)
        await on.pilot.pause()
        assert said(on, "listing-reason").startswith("What the agent can do")


async def test_a_part_that_stays_says_why_and_another_row_forgets_the_first_stroke(stage):
    async with stage(recorded.opening(), answers=ANSWERS) as on:
        await on.open_listing("/context", "ContextDialog")
        await on.pilot.press("d", "d")
        await on.pilot.pause()
        assert said(on, "listing-reason") == "Can't leave it out: it starts every request."
        await on.pilot.press("j", "d", "k", "j", "d")
        await on.pilot.pause()
        assert on.sent(c.ContextDrop) == []


@pytest.mark.parametrize("key", ["escape", "q"])
async def test_the_dialog_is_left_by_a_key(stage, key):
    async with stage(recorded.opening(), answers=ANSWERS) as on:
        await on.open_listing("/context", "ContextDialog")
        await on.pilot.press(key)
        await on.until(lambda: on.app.screen is on.screen)
        assert on.prompt.has_focus
