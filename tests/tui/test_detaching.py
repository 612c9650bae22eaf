"""Leaving a session that goes on, and what a screen shows of the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Static

from core.protocol import commands as c
from core.protocol import events as e
from tests.support import recorded
from tests.support.scripted_client import SESSION, ScriptedClient
from tui.app import AgentApp
from tui.bridge import SessionRequest
from tui.dialogs.pages import ConfirmDialog
from tui.notices import format_exit_summary
from tui.widgets.status_bar import StatusBar

RUNNING = [*recorded.opening(), e.TurnStarted(prompt="fix it", mode="agent", model="m")]
SERVES = e.JobStarted(id="job_1", call="c", command="npm run dev")
TESTS = e.JobStarted(id="job_2", call="c", command="pytest -q\nrm -r build")
WITH_JOB = [*recorded.opening(), SERVES]
STILL_RUNNING = "`npm run dev` is still running (job_1). Quit ends it."


def read_dialog(on: Any) -> list[str]:
    """The title, the explanation and the keys of the dialog."""
    return [str(part.render()) for part in on.app.screen.query(Static)]


@pytest.mark.parametrize("keys", [["f10"], [*"/detach", "enter"]])
async def test_a_key_and_a_command_leave_a_running_turn_unasked_and_say_how_to_come_back(stage, keys):
    async with stage(RUNNING) as on:
        await on.pilot.press(*keys)
        await on.until(lambda: on.app._exit)
        assert on.sent(c.SessionDetach) == [c.SessionDetach(session=SESSION)]
        assert on.sent(c.TurnInterrupt) == []
        assert on.app.main.bridge.is_detached
        assert f"attach {SESSION}" in format_exit_summary(on.app.main.state, Path.cwd(), goes_on=True)


async def test_a_session_that_can_t_be_detached_stays_on_the_screen_with_the_reason(stage):
    def react(_: object, command: c.AnyCommand) -> c.Reply | None:
        return c.Reject(code="private", message="it is private.") if isinstance(command, c.SessionDetach) else None

    async with stage(RUNNING, react=react) as on:
        await on.pilot.press("f10")
        await on.until(lambda: on.app._notifications)
        assert "it is private" in next(iter(on.app._notifications)).message
        assert not on.app._exit
        assert not on.app.main.bridge.is_detached


async def test_several_screens_are_told_of_and_one_of_them_is_left_unasked(stage):
    async with stage(RUNNING) as on:
        assert "clients" not in str(on.screen.query_one(StatusBar).render())
        on.client.emit(e.ClientsChanged(count=2))
        await on.until(lambda: "2 clients" in str(on.screen.query_one(StatusBar).render()))
        on.client.emit(e.ClientsChanged(count=1))
        await on.until(lambda: "clients" not in str(on.screen.query_one(StatusBar).render()))
        await on.pilot.press("ctrl+q")
        await on.until(lambda: isinstance(on.app.screen, ConfirmDialog))
        await on.pilot.press("escape")
        on.client.emit(e.ClientsChanged(count=2))
        await on.until(lambda: on.app.main.state.client_count == 2)
        await on.pilot.press("ctrl+q")
        await on.until(lambda: on.app._exit)


async def test_a_session_that_another_screen_took_up_faster_is_attached_to():
    def react(_: object, command: c.AnyCommand) -> c.Reply | None:
        is_resume = isinstance(command, c.SessionResume)
        return c.Reject(code="session_locked", message="open in another agent-tui.") if is_resume else None

    first, third = ScriptedClient(recorded.opening()), ScriptedClient(recorded.opening())
    slower = ScriptedClient(recorded.opening(), react=react)
    clients = [first, slower, third]

    async def connect() -> ScriptedClient:
        return clients.pop(0)

    app = AgentApp(connect, SessionRequest(model="m"))
    async with app.run_test(size=(100, 30)) as pilot:
        while app.main.state.seq < len(first.log):
            await pilot.pause(0.01)
        first.die()
        while not third.commands:
            await pilot.pause(0.01)
        assert third.commands == [c.SessionResume(session=SESSION)]
        assert slower.closed


async def test_what_comes_while_the_screen_is_already_gone_is_not_shown(stage):
    async with stage(recorded.opening()) as on:
        heard = []
        submit = on.client.submit

        async def keep(command):  # the draft is kept after the screen has gone, and the engine may still speak
            if isinstance(command, c.DraftKeep):
                heard.append(list(on.screen.children))
                on.screen.bridge.batches._topics |= {"blocks", "review", "status"}
                on.screen.bridge.batches._flush()
            return await submit(command)

        on.client.submit = keep
        await on.pilot.press(*"half a thought")
        on.app.exit()
    assert heard == [[]]


# Leaving what runs in the background


@pytest.mark.parametrize("leave", [["ctrl+q"], [*"/quit", "enter"]])
@pytest.mark.parametrize("answer", ["n", "escape", "q"])
async def test_quitting_asks_while_a_background_command_runs_and_stays_without_a_yes(stage, leave, answer):
    async with stage(WITH_JOB) as on:
        await on.pilot.press(*leave)
        await on.asked()
        assert read_dialog(on) == [STILL_RUNNING, "y quit   n stay   f10 leave it running"]
        await on.pilot.press(answer)
        await on.until(lambda: on.app.screen is on.screen)
        assert not on.app._exit


async def test_a_yes_ends_the_background_command_with_the_program(stage):
    async with stage(WITH_JOB) as on:
        await on.pilot.press("ctrl+q")
        await on.asked()
        await on.pilot.press("y")
        await on.until(lambda: on.app._exit)
        assert on.sent(c.SessionDetach) == []
        assert not on.app.main.bridge.is_detached


@pytest.mark.parametrize("events", [WITH_JOB, RUNNING], ids=["job", "turn"])
async def test_the_key_to_detach_answers_the_question_and_leaves_the_work_running(stage, events):
    async with stage(events) as on:
        await on.pilot.press("ctrl+q")
        await on.asked()
        await on.pilot.press("f10")
        await on.until(lambda: on.app._exit)
        assert on.sent(c.SessionDetach) == [c.SessionDetach(session=SESSION)]
        assert on.sent(c.TurnInterrupt) == []
        assert on.app.main.bridge.is_detached


async def test_several_commands_are_named_and_those_beside_a_turn_are_explained(stage):
    more = [e.JobStarted(id=f"job_{number}", call="c", command=f"serve {number}") for number in range(3, 6)]
    async with stage([*WITH_JOB, TESTS]) as on:
        await on.pilot.press("ctrl+q")
        await on.asked()
        named = "`npm run dev` and `pytest -q␊rm -r build`"
        assert read_dialog(on)[0] == f"2 background commands are still running: {named}. Quit ends them."
        await on.pilot.press("n")
        await on.emit(RUNNING[-1], *more)
        await on.pilot.press("ctrl+q")
        await on.asked()
        title, about, keys = read_dialog(on)
        assert title == "A turn is running. Stop it and quit?"
        assert about.startswith("5 background commands are still running: `npm run dev`, ")
        assert about.endswith("`serve 3` and 2 more. Quit ends them.")
        assert keys == "y stop and quit   n stay   f10 leave it running"


async def test_a_private_session_offers_no_way_to_leave_it_running(stage):
    async with stage([e.SessionStarted(workspace="shop", mode="agent", model="m", private=True), SERVES]) as on:
        await on.pilot.press("ctrl+q")
        await on.asked()
        assert read_dialog(on)[-1] == "y quit   n stay"


async def test_a_command_that_has_ended_or_has_another_screen_is_left_unasked(stage):
    for event in (e.JobEnded(id="job_1", command="npm run dev", ended="stopped"), e.ClientsChanged(count=2)):
        async with stage(WITH_JOB) as on:
            await on.emit(event)
            await on.pilot.press("ctrl+q")
            await on.until(lambda bound_stage=on: bound_stage.app._exit)
            assert on.sent(c.SessionDetach) == []


COMMAND = e.ToolRequested(call="user_1", tool="user_command", arguments="{}", document="doc_1", summary="make")
LOOPS = [e.LoopStarted(id=f"loop_{at}", prompt="check\nthe build", seconds=600) for at in range(2)]


@pytest.mark.parametrize(
    ("events", "question"),
    [
        ([COMMAND], "A command is still running. Quit stops it."),
        (LOOPS[:1], "The loop `check␊the build` is active. Quit ends it."),
        ([COMMAND, *LOOPS], "A command is still running. Quit stops it. 2 loops are active. Quit ends them."),
        ([SERVES, COMMAND], f"{STILL_RUNNING} A command is still running. Quit stops it."),
    ],
)
async def test_the_command_of_the_user_and_loops_are_asked_about_before_they_end(stage, events, question):
    async with stage([*recorded.opening(), *events]) as on:
        await on.pilot.press("ctrl+q")
        await on.asked()
        assert read_dialog(on)[0] == question
        await on.pilot.press("n")
        await on.until(lambda: on.app.screen is on.screen)
        assert not on.app._exit


async def test_another_session_opens_after_a_yes_where_a_background_command_runs(stage):
    async with stage(WITH_JOB) as on:
        await on.pilot.press(*"/new", "enter")
        await on.asked()
        title, keys = read_dialog(on)
        assert title == "`npm run dev` is still running (job_1). Leaving this session ends it."
        assert keys == "y leave it   n stay"
        await on.pilot.press("n")
        await on.until(lambda: on.app.screen is on.screen)
        opened = len(on.sent(c.SessionOpen))
        await on.pilot.press(*"/new", "enter")
        await on.asked()
        await on.pilot.press("y")
        await on.until(lambda: len(on.sent(c.SessionOpen)) > opened)
        assert len(on.sent(c.SessionOpen)) == opened + 1


@pytest.mark.parametrize("size", [(80, 24), (60, 16)])
def test_the_question_before_a_background_command_ends(looks, size):
    assert looks(WITH_JOB, size, keys=["ctrl+q"])
