"""The tour and the hints: what leads on, what ends them, and that they take nothing from the user."""

from __future__ import annotations

import asyncio

import pytest
from textual.widgets import Static
from textual.worker import WorkerState

from core.protocol import commands as c
from core.protocol import documents as d
from core.protocol import events as e
from core.protocol.queries import GuideAnswer, GuideQuery
from tests.support import recorded
from tui.key_table import KEYS
from tui.screens.controllers.guide import HINTS, TOUR, completes_step
from tui.slash_commands import SLASH_COMMANDS

NEW = {GuideQuery: GuideAnswer(tour="new", file="till/tax.py")}


def line_of(on) -> str:
    matches = on.screen.query("#guide")
    return str(matches.first(Static).render()) if matches and matches.first().display else ""


def kept(on) -> list[str]:
    return [command.tour for command in on.sent(c.GuideKeep) if command.tour]


async def test_each_step_is_led_on_by_what_it_names(stage):
    async with stage(recorded.opening(), answers=NEW) as on:
        await on.until(lambda: line_of(on).startswith("Tour 1/5 · Type @"))
        assert "@till/tax.py" in line_of(on)
        await on.pilot.press("@")
        await on.until(lambda: line_of(on).startswith("Tour 2/5 · shift+tab"))
        await on.pilot.press("backspace", "shift+tab")
        await on.until(lambda: line_of(on).startswith("Tour 3/5 · ctrl+r"))
        await on.pilot.press("ctrl+r")
        await on.until(lambda: line_of(on).startswith("Tour 4/5 · Type /"))
        await on.pilot.press("escape", "/")
        await on.until(lambda: line_of(on).startswith("Tour 5/5 · f1"))
        await on.pilot.press("f1")
        await on.until(lambda: line_of(on) == "")
        assert kept(on) == ["file", "mode", "review", "commands", "help", "done"]


async def test_the_tour_gives_its_room_to_what_the_agent_asks(stage):
    asked = (d.Question(id="q", text="Which one?", options=(d.Option(id="a", label="This"),)),)
    async with stage([*recorded.opening(), e.TurnStarted(prompt="go", mode="agent", model="m")], answers=NEW) as on:
        await on.until(lambda: line_of(on).startswith("Tour 1/5"))
        await on.emit(e.QuestionAsked(id="q1", call="c1", questions=asked, title="First"))
        await on.until(lambda: line_of(on) == "")
        await on.emit(e.QuestionAnswered(id="q1", answers=(d.QuestionAnswer(question="q", options=("a",)),), by="user"))
        await on.until(lambda: line_of(on).startswith("Tour 1/5"))
        assert kept(on) == ["file"]


async def test_the_tour_goes_on_where_it_was_left(stage):
    async with stage(recorded.opening(), answers={GuideQuery: GuideAnswer(tour="review")}) as on:
        await on.until(lambda: line_of(on))
        assert line_of(on).startswith("Tour 3/5")


async def test_escape_in_an_empty_prompt_ends_the_tour_and_one_that_goes_back_does_not(stage):
    async with stage(recorded.opening(), answers=NEW) as on:
        await on.until(lambda: line_of(on))
        await on.pilot.press("ctrl+r", "escape")
        await on.until(lambda: on.screen.query_one("#prompt").has_focus)
        assert line_of(on).startswith("Tour 1/5")
        await on.pilot.press("x", "escape")
        assert line_of(on).startswith("Tour 1/5")
        await on.pilot.press("backspace", "escape")
        await on.until(lambda: line_of(on) == "")
        assert kept(on)[-1] == "done"


async def test_the_tour_is_begun_again_by_its_command(stage):
    async with stage(recorded.opening(), answers={GuideQuery: GuideAnswer()}) as on:
        assert line_of(on) == ""
        await on.pilot.press(*"/tour", "enter")
        await on.until(lambda: line_of(on).startswith("Tour 1/5"))
        assert kept(on) == ["file"]


async def test_without_an_answer_of_the_engine_nothing_is_shown(stage):
    async with stage([*recorded.opening(), *recorded.turn()]) as on:
        assert line_of(on) == ""
        assert on.sent(c.GuideKeep) == []


async def test_a_hint_is_shown_until_its_key_was_used(stage):
    async with stage([*recorded.opening(), *recorded.turn()], answers={GuideQuery: GuideAnswer()}) as on:
        await on.until(lambda: line_of(on).startswith("Hint · ctrl+r to review"))
        assert [command.shown for command in on.sent(c.GuideKeep)] == ["review"]
        await on.pilot.press("ctrl+r")
        await on.until(lambda: "to review" not in line_of(on))
        assert "review" in [command.used for command in on.sent(c.GuideKeep)]


@pytest.mark.parametrize("known", [{"used": ("review",)}, {"shown": {"review": 3}}])
async def test_a_hint_that_is_known_is_not_shown_again(stage, known):
    events = [*recorded.opening(), *recorded.turn()]
    async with stage(events, answers={GuideQuery: GuideAnswer(**known)}) as on:
        await on.emit(e.Notice(level="info", message="Something."))
        await on.until(lambda: on.screen.controllers.guide._is_loaded)
        assert "to review" not in line_of(on)


def test_what_the_tables_name_is_there():
    names = {key.id for key in KEYS} | {f"/{command.word}" for command in SLASH_COMMANDS}
    assert [name for entry in (*TOUR, *HINTS) for name in entry.by if name not in names] == []
    assert all(step.by or step.typed for step in TOUR)
    assert len({entry.id for entry in (*TOUR, *HINTS)} | {"done", "new"})
    assert completes_step("panes.show_pane('review')", ("app.review",))
    assert completes_step("commits.commit('')", ("/commit",))
    assert not completes_step("commits.commit_all", ("/commit",))


async def test_a_line_that_comes_when_the_screen_is_already_gone_is_not_drawn(stage):
    async with stage(recorded.opening()) as on:
        await on.screen.query_one("#centre").remove()
        on.screen.controllers.guide._draw("too late")
        (worker,) = [candidate for candidate in on.app.workers if candidate.group == "guide line"]
        await asyncio.wait([worker._task])
        assert worker.state is WorkerState.CANCELLED
