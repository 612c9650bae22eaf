"""Side questions on the screen: asked while a turn runs, read over the conversation, copied, and left."""

from __future__ import annotations

import pytest
from textual.containers import VerticalScroll

from core.protocol import events as ev
from core.protocol.commands import AsideAsk, AsideStop, Reject, TurnSteer
from core.protocol.messages import Usage
from tests.support import recorded
from tui.dialogs.aside import AsideDialog

USAGE = Usage(prompt_tokens=6_233, cached_tokens=6_112, completion_tokens=23, cost=0.0041)


def answered(identity, text="We are at **two**.", question="Where are we?", problem=""):
    model = "anthropic/claude-opus-5-5"
    return ev.AsideAnswered(id=identity, question=question, text=text, model=model, usage=USAGE, problem=problem)


EARLIER = (answered("aside_1", "The `first` answer.", "First?"), answered("aside_2", "The second one.", "Second?"))


def words(on):
    """All that the dialog shows."""
    rows = on.app.screen._compositor.render_strips()
    return " ".join(" ".join(strip.text.strip(" ▌") for strip in rows).split())


async def ask(on, text="/btw Where are we?"):
    on.prompt.text = text
    on.prompt.action_send()
    await on.until(lambda: isinstance(on.app.screen, AsideDialog))
    await on.pilot.pause()


async def test_a_question_is_asked_beside_a_running_turn_and_its_answer_is_shown_as_it_comes(stage):
    async with stage([*recorded.opening(), *recorded.turn()[:1]]) as on:
        await ask(on)
        identity = on.sent(AsideAsk)[0].id
        assert on.sent(AsideAsk)[0].text == "Where are we?"
        assert not on.sent(TurnSteer)
        assert "Asking …" in words(on)
        await on.emit(ev.AsideDelta(id=identity, text="We are "), ev.AsideDelta(id="aside_other", text="Else."))
        await on.until(lambda: "We are" in words(on))
        assert "esc stop" in words(on)
        await on.emit(answered(identity))
        await on.until(lambda: "We are at two." in words(on))
        assert "6,233 tokens in (98% from the cache), 23 out · $0.0041" in words(on)
        assert "esc back" in words(on)


@pytest.mark.parametrize("key", ["escape", "q", "enter"])
async def test_leaving_it_before_the_end_stops_the_answer(stage, key):
    async with stage(recorded.opening()) as on:
        await ask(on)
        await on.pilot.press(key)
        await on.until(lambda: on.app.screen is on.screen)
        await on.until(lambda: on.sent(AsideStop))
        assert on.sent(AsideStop)[0].id == on.sent(AsideAsk)[0].id
        assert on.prompt.has_focus


async def test_leaving_an_answer_stops_nothing_and_it_can_be_read_again_with_those_before(stage):
    async with stage([*recorded.opening(), *EARLIER]) as on:
        await ask(on, "/btw")
        assert "2 of 2: Second?" in words(on)
        await on.pilot.press("left")
        await on.until(lambda: "1 of 2: First? The first answer." in words(on))
        await on.pilot.press("p", "n")
        await on.until(lambda: "2 of 2: Second?" in words(on))
        await on.pilot.press("p", "right", "right", "escape")
        await on.until(lambda: on.app.screen is on.screen)
        assert not on.sent(AsideStop)


async def test_an_answer_is_copied_as_it_was_written(stage, monkeypatch):
    async with stage([*recorded.opening(), *EARLIER]) as on:
        copied = list[str]()
        monkeypatch.setattr(on.screen.controllers.copying, "copy", copied.append)
        await ask(on, "/btw")
        await on.pilot.press("left", "y")
        await on.until(lambda: copied)
        assert copied == ["The `first` answer."]


async def test_a_long_answer_is_scrolled_and_foreign_text_is_harmless(stage):
    text = "\n\n".join(f"Row {number} [red]\x1b[31m" for number in range(60))
    async with stage([*recorded.opening(), answered("aside_1", text, "[b]Long?")]) as on:
        await ask(on, "/btw")
        assert "[b]Long?" in words(on)
        assert "Row 0 [red]" in words(on)
        assert "\x1b" not in words(on)
        await on.pilot.press("end")
        await on.until(lambda: on.app.screen.query_one(VerticalScroll).scroll_offset.y)
        await on.until(lambda: "Row 59" in words(on))


async def test_a_problem_is_told_in_the_place_of_the_answer(stage):
    async with stage([*recorded.opening(), answered("aside_1", "", problem="The key is wrong. Set it.")]) as on:
        await ask(on, "/btw")
        assert "! The key is wrong. Set it." in words(on)


async def test_a_refused_question_opens_nothing(stage):
    def react(_, command):
        return Reject(code="no_model", message="there is no model.") if isinstance(command, AsideAsk) else None

    async with stage(recorded.opening(), react=react) as on:
        on.prompt.text = "/btw Where are we?"
        on.prompt.action_send()
        await on.until(lambda: any("There is no model" in note.message for note in on.app._notifications))
        assert on.app.screen is on.screen
        on.prompt.text = "/btw"
        on.prompt.action_send()
        await on.until(lambda: any("Usage: /btw QUESTION" in note.message for note in on.app._notifications))
